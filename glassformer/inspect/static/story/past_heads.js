// While it learned: what the heads attended to at each step. All heads at one step, one head at all
// steps, and how closely heads came to follow a simple rule.

// One map of one head at one step, as rows; null where a mask hides what is looked at. Of a long text,
// several tokens share a row or a column.
function pastRows({ weights: { data, shape }, tokens }, moment, layer, head) {
  const [, layers, heads, rows, columns] = shape;
  const first = ((moment * layers + layer) * heads + head) * rows * columns;
  const lastOf = (row) => Math.floor(((row + 1) * tokens) / rows) - 1, firstOf = (column) => Math.floor((column * tokens) / columns);
  return Array.from({ length: rows }, (_, row) => (
    Array.from(data.subarray(first + row * columns, first + (row + 1) * columns), (weight, column) => (tokens && firstOf(column) > lastOf(row) ? null : weight))
  ));
}

// One scale for all heads and steps, so that they can be compared.
function attentionColour(maps) {
  maps.most ??= maps.weights.data.reduce((most, share) => Math.max(most, share), 1e-6);
  return bluesOf(maps.most);
}

function drawPastHeads(place, history) {
  const kinds = Object.keys(history.maps);
  const kind = kinds.includes("source") ? "source" : kinds[0];
  const controls = add(place, "p", { class: "controls" });
  const row = add(place, "div", { class: "attention" });
  const maps = add(row, "div", { class: "past-maps" });
  const film = add(place, "div", { class: "past-film" });
  // Beside the maps, if these are about the same attention.
  const rules = history.patterns.length ? add(kinds.length > 1 ? place : row, "div", { class: "rules" }) : null;
  const drawKind = (name) => {
    for (const part of [maps, film]) part.textContent = "";
    drawMaps(maps, film, history, name);
  };
  if (kinds.length > 1) {
    const names = { own: "to each other", source: "to the source" };
    addChoice(controls, "attention of the tokens", kinds.map((name) => [name, names[name]]), kind, drawKind);
  }
  drawKind(kind);
  if (rules) drawPatterns(rules, history);
}

// The numbers of a layer and a head are those of the model; the maps may hold only some of them.
function shownHead({ layers, heads, opens }) {
  const layer = layers.indexOf(state.layer), head = heads.indexOf(state.head);
  return layer < 0 || head < 0 ? opens : [layer, head];
}

function drawMaps(place, film, history, kind) {
  const maps = history.maps[kind];
  const columns = kind === "own" ? history.tokens : history.source;
  drawPastThumbs(add(place, "div", { class: "heads" }), history, maps);
  const one = add(place, "div", { class: "past-head" });
  const said = add(one, "p", { class: "said", "aria-live": "polite" });
  const tokens = history.tokens.length / maps.weights.shape[3]; // behind each row
  const grain = tokens > 1 ? ` A pixel stands for ${number(Math.round(10 * tokens) / 10)} tokens.` : "";
  const box = addFigure(one, { name: "One head at one step", caption: `Rows look, columns are looked at. One scale for all heads and steps.${grain}` });
  drawFilm(add(addFigure(film, { name: "One head at every step", style: "wide", caption: "The same head at every step of the training that was kept." }), "div", { class: "film" }), history, maps);
  const paintNow = drawPastMap(box, history, maps, columns);
  follow(["moment", "layer", "head"], () => {
    const [layer, head] = shownHead(maps);
    said.textContent = `Layer ${maps.layers[layer]}, head ${maps.heads[head]}, at step ${number(history.steps[state.moment])}`;
    paintNow(layer, head);
  });
}

// The names of what is behind each row or column: of a long text, the first of several tokens.
const namesBehind = (tokens, count) => Array.from({ length: count }, (_, n) => tokens[Math.floor((n * tokens.length) / count)]);

function drawPastMap(box, history, maps, tokens) {
  const [, , , rows, columns] = maps.weights.shape, colour = attentionColour(maps);
  const canvas = drawMatrix(add(box, "div", { class: "scroll" }), {
    rows, columns, value: () => 0, colour, label: "attention of one head", size: Math.max(9, Math.min(24, 380 / columns)), most: 380,
    rowNames: namesBehind(history.tokens, rows), columnNames: namesBehind(tokens, columns),
  });
  addScale(box, maps.most, { colour: blues, hidden: maps.tokens ? "later tokens" : "" });
  let shown = null;
  canvas.addEventListener("pointermove", (event) => {
    const around = canvas.getBoundingClientRect();
    const [row, column] = [[event.clientY - around.top, around.height, rows], [event.clientX - around.left, around.width, columns]].map(([at, size, count]) => Math.max(0, Math.min(count - 1, Math.floor((at / size) * count))));
    canvas.title = `${visible(namesBehind(history.tokens, rows)[row])} → ${visible(namesBehind(tokens, columns)[column])}: ${shown[row][column] === null ? "masked" : percent(shown[row][column])}`;
  });
  return (layer, head) => {
    shown = pastRows(maps, state.moment, layer, head);
    paint(canvas, shown, colour);
  };
}

// All heads at the chosen step; rows of the grid are layers.
function drawPastThumbs(place, history, maps) {
  const [, , , rows, columns] = maps.weights.shape;
  const box = addFigure(place, { name: "All heads at one step", caption: "Rows: layers; columns: heads. The strongest colour is the largest weight of all heads and steps." });
  const table = add(add(box, "div", { class: "scroll" }), "table", { class: "thumbs" });
  const head = add(add(table, "thead"), "tr");
  add(head, "td", {}, "");
  for (const each of maps.heads) add(head, "th", { scope: "col" }, String(each));
  const body = add(table, "tbody");
  const thumbs = maps.layers.flatMap((layer, l) => {
    const row = add(body, "tr");
    add(row, "th", { scope: "row" }, String(layer));
    return maps.heads.map((number, h) => {
      const button = add(add(row, "td"), "button", { type: "button", class: "thumb", "aria-label": `layer ${layer}, head ${number}` });
      const canvas = add(button, "canvas", { width: columns, height: rows });
      button.addEventListener("click", () => choose({ layer, head: number }));
      return { button, canvas, l, h };
    });
  });
  follow(["moment"], () => thumbs.forEach(({ canvas, l, h }) => {
    paint(canvas, pastRows(maps, state.moment, l, h), attentionColour(maps));
  }));
  follow(["layer", "head"], () => {
    const [layer, chosen] = shownHead(maps);
    thumbs.forEach(({ button, l, h }) => markChosen(button, l === layer && h === chosen));
  });
}

function markChosen(button, isChosen) {
  button.classList.toggle("chosen", isChosen);
  button.setAttribute("aria-pressed", isChosen);
}

// The chosen head at every step.
function drawFilm(place, history, maps) {
  const [, , , rows, columns] = maps.weights.shape;
  const frames = history.steps.map((step, moment) => {
    const button = add(place, "button", { type: "button", class: "past-frame", "aria-label": `step ${number(step)}` });
    const canvas = add(button, "canvas", { width: columns, height: rows });
    add(button, "span", {}, number(step));
    button.addEventListener("click", () => choose({ moment }));
    return { button, canvas };
  });
  follow(["layer", "head"], () => frames.forEach(({ canvas }, moment) => {
    paint(canvas, pastRows(maps, moment, ...shownHead(maps)), attentionColour(maps));
  }));
  follow(["moment"], () => frames.forEach(({ button }, moment) => {
    markChosen(button, moment === state.moment);
  }));
}

const PATTERN_NOTES = {
  "previous token": "attention to the token before",
  itself: "attention to the token that looks",
  "first token": "attention to the first token, where heads look that find nothing to attend to",
  "after the same token": "attention to what followed the same token before, as an induction head does",
  "next token": "attention to the token after",
};

function drawPatterns(place, history) {
  add(place, "p", { class: "said" }, "Heads that follow a rule");
  const controls = add(place, "p", { class: "controls" });
  const said = add(place, "p", { class: "hint" }), room = addFigure(place, { name: "Heads that follow a rule", of: ["layer", "head"] });
  const maps = history.maps.own;
  const drawOne = (name) => {
    const { shares, evenly } = history.patterns.find((each) => each.name === name);
    room.textContent = "";
    setCaption(room, `Share of ${PATTERN_NOTES[name].split(/[,:]/)[0]}.`);
    said.textContent = `One line for each head: the share of its ${PATTERN_NOTES[name]}, as a mean over the tokens. The highest are named layer.head. Dashed: a head that attends to all tokens alike.`;
    const ends = shares[shares.length - 1].flat().sort((a, b) => b - a), least = ends[Math.min(3, ends.length - 1)];
    const lines = maps.layers.flatMap((layer, l) => maps.heads.map((head, h) => {
      const values = shares.map((each) => each[l][h]);
      return {
        points: history.steps.map((step, n) => [step, values[n]]), layer, head, style: "many",
        label: values[values.length - 1] >= least ? `${layer}.${head}` : null,
      };
    }));
    lines.push({ points: [history.steps[0], history.steps[history.steps.length - 1]].map((step) => [step, evenly]), style: "evenly" });
    drawTimeChart(room, history, { title: `attention of every head: ${name}`, lines, domain: [0, Math.min(1, 1.1 * Math.max(evenly, ...shares.flat(2)))], format: (share) => percent(share, 0) });
    const paths = [...room.querySelectorAll("path.many")];
    follow(["layer", "head"], () => {
      const [layer, head] = shownHead(maps);
      paths.forEach((path, n) => {
        const isChosen = lines[n].layer === maps.layers[layer] && lines[n].head === maps.heads[head];
        path.classList.toggle("chosen", isChosen);
        if (isChosen) path.parentNode.append(path); // on top of the others
      });
    });
  };
  const names = history.patterns.map(({ name }) => [name, name]);
  addChoice(controls, "rule", names, names[0][0], drawOne);
  drawOne(names[0][0]);
}
