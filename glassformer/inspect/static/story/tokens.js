// Chapter 1: the text cut up.

// A token in a sentence: without quotes, a full stop would read as the end of it.
const quoted = (token) => `“${isolated(visible(token))}”`;
// The position of a token that stands elsewhere, too; null: its name is enough.
const placeAmong = (tokens, n) => (tokens.indexOf(tokens[n]) === tokens.lastIndexOf(tokens[n]) ? null : n);
const quotedAmong = (tokens, n) => (placeAmong(tokens, n) === null ? quoted(tokens[n] ?? "") : `${quoted(tokens[n])} at ${n}`);
const pieceText = (token) => (token.startsWith(" ") && token.trim() ? `␣${visible(token)}` : visible(token));

chapters.push({
  id: "tokens",
  title: "Tokens",
  equation: ["text → tokens → ids"],
  note: (scene) => `The model reads pieces of text, each with a number. ${whatFollows(scene)}`,
  isShown: (scene) => scene.streams.some(({ picture }) => !picture),
  draw(place, scene) {
    scene.streams.forEach((stream, number) => {
      if (stream.picture) return;
      if (scene.streams.length > 1) add(place, "h3", {}, stream.name);
      const isMain = stream === scene.main;
      const caption = stream.spelling ? "Tokens with their ids; ␣ is a space that belongs to the token." : "Tokens with their ids.";
      const box = addFigure(place, { name: `Tokens of the ${stream.name}`, caption, of: isMain ? ["token"] : [] });
      drawChips(box, stream, number, isMain);
      if (isMain && stream.spelling) drawSpelling(place, stream);
    });
  },
});

// Which chapters follow a token that the reader chooses.
function whatFollows({ beams, main, predicts, searchBeams }) {
  if (predicts === "whole" || predicts === "vector") {
    const chapters = main.layers ? "the chapters on embeddings, attention and layers follow it" : "the map of the embeddings follows it";
    return `Choose one: ${chapters}. The ${predicts === "vector" ? "vector" : "prediction"} is that of the whole text.`;
  }
  const search = { source: "searches for a whole translation", image: "searches for a whole caption" }[main.memory] ?? "starts at the end of the text";
  return `Choose one: every chapter below follows it${beams || searchBeams ? `, except for the beam search, which ${search}` : ""}.`;
}

function drawChips(box, stream, number, isMain) {
  const role = isMain ? { role: "listbox", "aria-orientation": "horizontal" } : { role: "list" };
  const row = add(box, "div", { class: "chips", dir: "auto", "aria-label": `tokens of the ${stream.name}`, ...role });
  const chips = stream.tokens.map((token, n) => addChip(row, stream, number, n, isMain));
  if (!isMain) return rove(row, chips); // the pictures follow the other text
  chips.forEach((chip, n) => pressable(chip, () => choose({ token: n, key: null, step: null })));
  rove(row, chips, chips.length, state.token);
  row.addEventListener("focusin", ({ target }) => { // an arrow key chooses, too
    const at = chips.indexOf(target);
    if (at >= 0 && target.matches(":focus-visible")) choose({ token: at, key: null, step: null });
  });
  follow(["token"], () => chips.forEach((chip, n) => {
    const isChosen = n === state.token;
    if (chip.classList.contains("chosen") === isChosen && chip.hasAttribute("aria-selected")) return;
    chip.classList.toggle("chosen", isChosen);
    chip.setAttribute("aria-selected", isChosen);
  }));
}

function addChip(row, stream, number, n, isMain) {
  const role = isMain ? { role: "option", "data-acts": "" } : { role: "listitem" };
  const chip = add(row, "span", { class: isMain ? "chip" : "chip still", ...role });
  add(chip, "span", { class: "piece" }, short(pieceText(stream.tokens[n]), 40));
  add(chip, "span", { class: "id" }, String(stream.ids[n] ?? ""));
  return means(chip, "token", number, n);
}

// --- bytes and merges ---

// The word that a token belongs to: the last one that begins at it or before it.
function wordAt({ words }, token) {
  const found = words.filter(({ first }) => first <= token).at(-1);
  const count = found?.steps.at(-1)?.pieces.length ?? 1;
  return found && token < found.first + count ? found : null;
}

function drawSpelling(place, stream) {
  const line = add(place, "p", { class: "bytes-line" }), part = add(place, "div");
  follow(["token"], () => {
    const bytes = stream.spelling.bytes[state.token] ?? [];
    const spelled = bytes.length ? `${bytes.length === 1 ? "one byte" : `${bytes.length} bytes`}: ` : "no bytes: it is a mark, not text.";
    writeProse(line, [term(quoted(stream.tokens[state.token]), "query", ref("token", mainStream(), state.token)), ` is token ${number(stream.ids[state.token])} and stands for ${spelled}`]);
    for (const byte of bytes.slice(0, 64)) add(line, "code", { class: "byte" }, hexadecimal(byte));
    if (bytes.length > 64) line.append(` and ${number(bytes.length - 64)} more`);
  });
  if (stream.spelling.words.length) drawMerges(part, stream);
}

function drawMerges(part, stream) {
  add(part, "h3", {}, "How byte-pair encoding found this word");
  const box = addFigure(part, { name: "Merges of a word", of: ["token"] });
  follow(["token", "step"], () => {
    const focused = box.contains(document.activeElement);
    box.textContent = "";
    const word = wordAt(stream.spelling, state.token);
    if (word) drawLadder(box, word, stream);
    else add(box, "p", { class: "hint" }, "This token has no merges: it is a mark, or part of a word that is very long or was cut off.");
    setCaption(box, word?.steps.length ? "The word begins as single bytes. Each row joins the two neighbours whose merge was learned first; ranks count from the most frequent pair of the training text." : "");
    if (focused) box.querySelector("input")?.focus();
  });
}

function drawLadder(box, word, stream) {
  const { steps } = word, last = Math.min(state.step ?? steps.length, steps.length);
  if (!steps.length) return void add(box, "p", { class: "hint" }, `${quoted(word.bytes.join(""))} is a single byte: there is nothing to merge.`);
  const controls = add(box, "div", { class: "controls unsaved" });
  const input = addControl(controls, "merges", { type: "range", min: 0, max: steps.length, step: 1, value: last }, ({ value }) => {
    choose({ step: Number(value) === steps.length ? null : Number(value) });
  });
  input.setAttribute("aria-valuetext", `${last} of ${steps.length}`);
  add(controls, "output", {}, `${last} of ${steps.length}`);
  const list = add(box, "ol", { class: "ladder" });
  addRung(list, word.bytes, null, "bytes", true);
  steps.forEach((step, n) => {
    const what = step.rank === null ? "the vocabulary has the whole word" : `merge ${number(step.rank + 1)} of ${number(stream.spelling.num_merges)}`;
    addRung(list, step.pieces, step.place, what, n < last);
  });
}

function addRung(list, pieces, fresh, what, isDone) {
  const row = add(list, "li", { class: isDone ? "rung" : "rung coming" });
  const spelled = add(row, "span", { class: "pieces" });
  pieces.forEach((piece, n) => add(spelled, "span", { class: n === fresh ? "rung-piece fresh" : "rung-piece" }, pieceText(piece)));
  add(row, "span", { class: "rank" }, what);
}
