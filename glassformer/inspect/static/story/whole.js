// The picture of the whole model, from the parts that computed the text. It is the way through the
// page: a part leads to its chapter, with its layer chosen; the part of the chapter in view is marked.

const MOST_LAYERS_DRAWN = 6, MOST_TOKENS_DRAWN = 7, WHOLE_OPTIONS = 4, MOST_DOTS = 16;

// What a part of each kind is called, its sizes, and the chapters that it leads to: the first one that
// the page has. Parts without a chapter are drawn, but lead nowhere.
const PARTS = {
  embedding: { title: () => "Embedding", sizes: ({ vocabulary, width, adds_positions: addsPositions, has_segments: hasSegments }) => [`V × D = ${number(vocabulary)} × ${width}`, ...(addsPositions ? ["+ position"] : []), ...(hasSegments ? ["+ segment"] : [])], chapters: () => ["embeddings"] },
  patches: { title: ({ is_convolution: isConvolution }) => (isConvolution ? "Convolution" : "Patches → vectors"), sizes: ({ adds_positions: addsPositions }, { picture: { grid } }) => [`${grid.join(" × ")} places`, ...(addsPositions ? ["+ position"] : [])], chapters: () => ["patch-embeddings", "patches"] },
  convolution: { isBody: true, title: () => "Convolution", sizes: () => ["3 × 3, x + …"] },
  recurrence: {
    isBody: true, title: ({ cell }) => cell,
    sizes: ({ count, width, is_both_ways: isBoth }) => [`${counted(count, "layer")}, D = ${width}`, isBoth ? "reads → and ←" : "token by token →"],
  },
  attention: { title: () => "Attention", style: "attends", sizes: ({ score }, { memory }) => [`to the ${memory}`, ...(score ? [score] : [])], chapters: () => ["alignment", "words"], isBody: true },
  norm: { title: () => "norm", style: "thin" },
  linear: { title: () => "linear", sizes: ({ from, to }) => [`${from} → ${to}`], style: "thin" },
  merging: { isBody: true, title: () => "merge", sizes: () => ["4 → 1"], style: "thin" },
  pooling: { title: ({ how }) => ({ mean: "mean", max: "maximum", first: "first token", last: "last state", class: "class token", idf: "rare words count more", learned: "weighted mean" }[how] ?? how), sizes: () => ["one vector"], style: "thin" },
  head: { title: () => "Logits", sizes: ({ from, to }, stream, { labels }) => [`D × ${labels?.length ? "labels" : "V"} = ${from} × ${number(to)}`, `one per ${labels?.length ? "label" : "token"}`], chapters: () => ["prediction"] },
  layers: { isBody: true },
  bag: { isBody: true, title: () => "Bag of words", sizes: ({ vocabulary, width, shares }) => [`${number(vocabulary)} vectors × ${width}`, ...(shares ? [`logits = ${shares.map((share, n) => `${number(share)} · ${["layers", "bag"][n]}`).join(" + ")}`] : ["a weighted sum"])], chapters: () => ["prediction"] },
};

const hasChapter = (id) => chapters.some((chapter) => chapter.id === id && (!chapter.isShown || chapter.isShown(scene)));

function drawWhole(place, scene) {
  place.textContent = "";
  if (!scene.parts) return;
  const drawing = { scene, buttons: [], marks: [] };
  const box = addFigure(place, { name: "The whole model", of: ["layer", "head", "token"], style: "whole-figure" });
  const rows = add(box, "div", { class: "whole", role: "group", "aria-label": "parts of the model; each leads to its chapter" });
  scene.parts.forEach((parts, n) => {
    if (n) drawMemory(rows, scene, parts);
    drawStreamParts(rows, drawing, n, parts);
  });
  rove(rows, drawing.buttons, 1, 0, (key, at) => pointed(key, at, drawing.buttons));
  follow(["chapter", "layer", "head", "look", "token", "patchLayer", "patchHead"], () => drawing.marks.forEach((mark) => mark()));
}

// One line: what goes in, its entry, what is done layer by layer, what follows, what comes out.
function drawStreamParts(rows, drawing, number, parts) {
  const { scene } = drawing, stream = scene.streams[number], isBody = ({ kind }) => PARTS[kind].isBody;
  const bag = parts.find(({ kind, shares }) => kind === "bag" && shares), own = parts.filter((part) => part !== bag);
  const [from, to] = [own.findIndex(isBody), own.findLastIndex(isBody) + 1];
  const line = add(rows, "div", { class: "whole-row", role: "group", "aria-label": stream.name });
  const cell = (name) => {
    const found = add(line, "div", { class: `cell-of ${name}`, style: `--row: ${2 * number + 1}` });
    if (name !== "in") addArrow(found, "into");
    return found;
  };
  drawWholeInput(cell("in"), drawing, number);
  if (from) drawInTurn(cell("entry"), drawing, stream, own.slice(0, from));
  const body = cell("body"), members = bag ? add(body, "div", { class: "members" }) : body;
  let layer = 0;
  const across = bag ? add(members, "div", { class: "across" }) : members;
  together(own.slice(from, to)).forEach(({ part, count }, n) => {
    if (n) addArrow(across);
    if (part.kind === "layers") drawWholeLayers(across, drawing, { stream, number, part, first: layer });
    else addPart(across, drawing, stream, part, count);
    layer += part.kind === "layers" ? part.count : 0;
  });
  if (bag) addArrow(members, "plus", "+");
  if (bag) addPart(members, drawing, stream, bag);
  if (to < own.length) {
    const tail = cell(stream === scene.main ? "tail" : "tail feeding");
    if (stream !== scene.main) add(tail, "span", { class: "memory-line" });
    drawInTurn(tail, drawing, stream, own.slice(to));
  }
  if (stream === scene.main) drawWholeOutput(cell("out"), drawing, stream);
}

const addArrow = (place, style = "", sign = style === "down" ? "↓" : "→") => add(place, "span", { class: `arrow ${style}`, "aria-hidden": "true" }, sign);

function drawInTurn(place, drawing, stream, parts) {
  together(parts).forEach(({ part, count }, n) => {
    if (n) addArrow(place, "down");
    addPart(place, drawing, stream, part, count);
  });
}

// Equal parts that follow each other, once.
function together(parts) {
  const found = [];
  for (const part of parts) {
    if (JSON.stringify(found.at(-1)?.part) === JSON.stringify(part)) found.at(-1).count += 1;
    else found.push({ part, count: 1 });
  }
  return found;
}

// From the end of the source to the attention of the target.
function drawMemory(rows, scene, parts) {
  const [source] = scene.streams, hasTail = !PARTS[scene.parts[0].at(-1).kind].isBody;
  if (hasTail) add(add(rows, "span", { class: "memory-elbow" }), "span", { class: "memory-line" });
  const line = add(rows, "p", { class: "memory" });
  const read = parts.some(({ has_cross: hasCross }) => hasCross) ? "keys and values" : parts.some(({ kind }) => kind === "attention") ? "looked at for every token, and the first state" : "the first state";
  if (hasTail) add(line, "span", { class: "memory-line" });
  add(line, "span", {}, `what the ${source.name} became: ${read}`);
  addArrow(line, "down");
}

// A button that leads to the first of these chapters that is shown; a plain box without one.
function addLeading(parent, drawing, { style, ids = [], choice = {}, name = "", isChosen = () => true }) {
  const id = ids.find(hasChapter);
  const box = add(parent, id ? "button" : "div", { class: `whole-part ${style}`, "data-part": name, ...(id ? { type: "button" } : {}) });
  if (!id) return box;
  drawing.buttons.push(box);
  box.addEventListener("click", () => {
    choose(choice);
    goToChapter(id);
  });
  drawing.marks.push(() => {
    if (state.chapter === id && isChosen()) box.setAttribute("aria-current", "true");
    else box.removeAttribute("aria-current");
  });
  return box;
}

function addPart(parent, drawing, stream, part, count = 1) {
  const { title, sizes, style = "", chapters: leads = () => [] } = PARTS[part.kind];
  const box = addLeading(parent, drawing, { style, ids: leads() });
  add(box, "span", { class: "part-name" }, count > 1 ? `${count} × ${title(part)}` : title(part));
  for (const size of sizes?.(part, stream, drawing.scene) ?? []) add(box, "span", { class: "part-size" }, size);
  return box;
}

// --- what goes in ---

function drawWholeInput(line, drawing, number) {
  const { scene } = drawing, stream = scene.streams[number], { picture, tokens } = stream;
  const ids = picture ? ["patches", "pixels"] : ["tokens"];
  const box = addLeading(line, drawing, { style: "goes-in", ids, name: stream.name });
  if (picture) {
    const [wide, high] = drawnSize(picture.size, 104), [rows, columns] = picture.grid;
    const image = add(box, "span", { class: "whole-picture" });
    Object.assign(image.style, { width: `${wide}px`, height: `${high}px`, backgroundImage: `linear-gradient(to right, rgb(128 128 128 / .6) 1px, transparent 1px), linear-gradient(rgb(128 128 128 / .6) 1px, transparent 1px), url("${picture.seen}")`, backgroundSize: `${100 / columns}% ${100 / rows}%, ${100 / columns}% ${100 / rows}%, 100% 100%` });
  } else {
    const list = add(box, "span", { class: "whole-tokens", dir: "auto" });
    const isMain = stream === scene.main, drawn = { first: -1 };
    const draw = () => {
      const [first, last] = windowAround(isMain ? state.token : 0, tokens.length, MOST_TOKENS_DRAWN);
      if (first !== drawn.first) {
        list.textContent = "";
        drawn.items = tokens.slice(first, last).map((token) => add(list, "span", { class: "whole-token" }, short(pieceText(token), 12)));
        list.classList.toggle("cut-before", first > 0);
        list.classList.toggle("cut-after", last < tokens.length);
        drawn.first = first;
      }
      drawn.items.forEach((item, n) => item.classList.toggle("chosen", isMain && first + n === state.token));
    };
    drawing.marks.push(draw);
  }
  add(box, "span", { class: "part-size" }, `T = ${countedTokens(stream)}`);
}

// --- layers ---

function drawWholeLayers(line, drawing, { stream, number, part, first }) {
  const { scene } = drawing, { count, heads, width, hidden, has_cross: hasCross } = part, layer = stream.layers?.[first];
  const group = add(line, "div", { class: "whole-layers" });
  const length = layer?.grid ? layer.grid[0] * layer.grid[1] : stream.tokens.length;
  add(group, "p", { class: "part-size" }, `${counted(count, "layer")}, each T × D = ${length} × ${width}, ${counted(heads, "head")}${stream.wiring?.is_rotary ? ", rotary positions" : ""}`);
  const box = add(group, "div", { class: "layer-columns" });
  const names = chosenNames(scene, stream), isMain = stream === scene.main, isText = !stream.picture;
  const layerName = isMain || isText ? "layer" : names.layer;
  const looks = looksOf(scene), at = (test) => looks.findIndex(test);
  const own = isText ? Math.max(0, at(({ name, asks, answers }) => name !== "cross" && asks === number && answers === number)) : 0;
  const isPre = stream.wiring?.pre_norm !== false;
  const cross = at(({ name }) => name === "cross");
  const [from, to] = windowAround(Math.max(0, state[layerName] - first), count, MOST_LAYERS_DRAWN);
  if (from) add(box, "span", { class: "more-layers" }, "⋯");
  for (let n = from; n < to; n += 1) {
    const at = first + n;
    const column = add(box, "div", { class: "layer-column" });
    add(column, "span", { class: "layer-number" }, String(at));
    drawing.marks.push(() => column.classList.toggle("chosen", at === state[layerName]));
    if (stream.layers?.[at].windows?.length > 1) drawWindowsPart(column, drawing, stream.layers[at], at, layerName);
    const isChosen = (look) => () => at === state[layerName] && (!isText || !look || look === lookNumber());
    drawAttentionPart(column, drawing, { isPre, look: isText ? looks[own] : { ...stream, asking: stream.tokens }, layers: stream.layers, layer: at, heads, headName: isMain || isText ? "head" : names.head }, {
      ids: [isText || isMain ? "attention" : "seeing"], choice: { [layerName]: at, ...(isText ? { look: own, key: null } : {}) }, name: `attention ${at}`, isChosen: () => at === state[layerName] && (!isText || own === lookNumber()),
    }, "attention");
    if (hasCross) {
      const isLook = cross >= 0;
      drawAttentionPart(column, drawing, { isPre, look: isLook ? looks[cross] : null, layers: isLook ? looks[cross].layers : null, layer: at, heads, headName: "head" }, {
        ids: isLook ? ["attention"] : ["words", "alignment"], choice: { layer: at, ...(isLook ? { look: cross, key: null } : {}) }, name: `cross ${at}`, isChosen: () => at === state.layer && (!isLook || cross === lookNumber()),
      }, `to the ${stream.memory}`);
    }
    const ids = isMain ? ["feedforward", "layers"] : [], feed = addLeading(column, drawing, { style: "feeds", ids, choice: { layer: at }, name: `feed-forward ${at}`, isChosen: isChosen(0) });
    inBlock(feed, isPre, () => {
      addLayerPartName(feed, "feed-forward", at);
      add(feed, "span", { class: "part-size" }, `${width} → ${hidden} → ${width}`);
    });
  }
  if (to < count) add(box, "span", { class: "more-layers" }, "⋯");
}

function drawWindowsPart(column, drawing, layer, at, layerName) {
  const box = addLeading(column, drawing, { style: "thin", ids: ["windows"], choice: { [layerName]: at }, name: `windows ${at}`, isChosen: () => at === state[layerName] });
  addLayerPartName(box, isShifted(layer) ? "shifted windows" : "windows", at);
}

// All layers have one: who hears the page is told which layer it is.
function addLayerPartName(box, name, layer) {
  add(add(box, "span", { class: "part-name" }, name), "span", { class: "spoken" }, ` of layer ${layer}`);
}

// Attention with the map of its chosen head, and a dot for each head.
function drawAttentionPart(column, drawing, { isPre, look, layers, layer, heads, headName }, leading, name) {
  const box = addLeading(column, drawing, { style: "attends", ...leading });
  inBlock(box, isPre, () => {
    addLayerPartName(box, name, layer);
    if (layers?.[layer].query && !layers[layer].windows) drawWholeMap(box, drawing, look, layer, headName);
    if (heads <= MOST_DOTS) drawHeadDots(box, drawing, heads, headName);
  });
}

// What a block does around a part: its norm before it or after the sum.
function inBlock(box, isPre, draw) {
  if (isPre) add(box, "span", { class: "around" }, "norm");
  draw();
  add(box, "span", { class: "around" }, isPre ? "+ x" : "+ x, norm");
}

function drawWholeMap(box, drawing, look, layer, headName) {
  const wide = Math.min(look.tokens.length, THUMB), high = Math.min(look.asking.length, THUMB);
  const canvas = add(box, "canvas", { width: wide, height: high, class: "whole-map" });
  let shown = null;
  drawing.marks.push(() => {
    const head = Math.min(state[headName], headsOf(look.layers[layer]) - 1);
    if (head === shown) return;
    shown = head;
    later(() => { if (shown === head) paintThumb(canvas, look, layer, head, wide, high); });
  });
}

function drawHeadDots(box, drawing, heads, headName) {
  const row = add(box, "span", { class: "head-dots", "aria-hidden": "true" });
  const dots = Array.from({ length: heads }, () => add(row, "span"));
  drawing.marks.push(() => dots.forEach((dot, n) => dot.classList.toggle("chosen", n === Math.min(state[headName], heads - 1))));
}

// --- what comes out ---

function drawWholeOutput(line, drawing, stream) {
  const { scene } = drawing;
  if (!scene.predictions.length) {
    const box = addLeading(line, drawing, { style: "comes-out", ids: [] });
    add(box, "span", { class: "part-name" }, "Vector of the text");
    return;
  }
  const box = addLeading(line, drawing, { style: "comes-out", ids: ["prediction"], name: "prediction" });
  const title = add(box, "span", { class: "part-name" }), list = add(box, "span", { class: "whole-options" });
  let drawn = null;
  drawing.marks.push(() => {
    const at = predictionAt(scene);
    if (at === drawn) return;
    drawn = at;
    const { options } = scene.predictions[at];
    title.textContent = scene.predicts === "whole" ? "Prediction" : `Prediction ${scene.predicts === "next" ? "after" : "at"} ${quoted(stream.tokens[at])}`;
    list.textContent = "";
    for (const { token, probability } of options.slice(0, WHOLE_OPTIONS)) {
      const row = add(list, "span", { class: "whole-option" });
      add(row, "span", { class: "whole-share" }).style.width = `${100 * probability}%`;
      const name = add(row, "span", { class: "whole-option-name", dir: "auto" }, short(visible(token), 14));
      if (isPainted(scene)) add(name, "span", { class: "swatch" }).style.background = token;
      add(row, "span", { class: "part-size" }, percent(probability, 0));
    }
  });
}
