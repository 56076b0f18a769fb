// Chapter 3: who looks at whom. All heads at a glance, one head as lines and as a map.

const THUMB = 64, MOST_LINES = 80;
const QUERY = { text: "query", kind: "query" }, KEY = { text: "key", kind: "key" }, VALUE = { text: "value", kind: "value" };

// query · keyᵀ / √d; some models normalise both first.
const scaledProduct = ({ wiring }) => (wiring?.qk_norm ? ["norm(", QUERY, ") · norm(", KEY, ")ᵀ / √d"] : [QUERY, " · ", KEY, "ᵀ / √d"]);

// What is added to the scores of a model: a number for each distance, and −∞ where nothing may look.
function addedToScores({ layers, bias, causal }) {
  const isMasked = causal || layers.some(({ windows }) => windows?.length > 1);
  return [...(bias || layers[0].windows ? [" + bias of the distance"] : []), ...(isMasked ? [" + mask"] : [])];
}

chapters.push({
  id: "attention",
  title: "Attention",
  equation: (scene) => ["weights = softmax(", ...scaledProduct(lookOf(scene)), ...addedToScores(lookOf(scene)), ")"],
  note: ({ main }) => {
    const { picture } = main, [unit, how] = [oneOf(main), picture ? "" : ", click to keep it"];
    const others = main.causal ? "itself and those before it" : main.layers[0].windows ? "others in its window" : "others";
    return `In every layer, every head lets each ${unit} look at ${others} and take a weighted mean of what it finds. Choose a head in the grid; point at a ${unit} to see where it looks${how}.`;
  },
  isShown: (scene) => Boolean(scene.main.layers),
  draw(place, scene) {
    if (scene.main.picture) {
      drawPictureAttention(place, scene);
      return;
    }
    if (sourceOf(scene)?.picture) add(place, "p", { class: "hint" }, `These are the tokens of the ${scene.main.name}, which look at each other; “Words and the picture” above shows how they look at the ${scene.main.memory}.`);
    const looks = looksOf(scene);
    if (looks.length > 1) addLooks(place, looks);
    const layout = add(place, "div", { class: "attention" });
    const left = add(layout, "div", { class: "heads" });
    const grid = addFigure(left, { name: "All heads", of: ["look"], caption: `A small map for each head. Rows: layers; columns: heads. The strongest colour is the largest weight of a head.${looks[0].causal ? " Grey: masked." : ""}` });
    const thumbs = looks.map((look) => {
      const room = add(grid, "div");
      drawThumbs(room, look);
      return room;
    });
    const map = addFigure(left, { name: "Map of one head", of: ["look", "layer", "head"], caption: "All weights of the chosen head. A row is a query, a column a key; each row adds up to 1." });
    const view = add(layout, "div", { class: "one-head" });
    const said = add(view, "p", { class: "said" });
    const lines = addFigure(view, { name: "One head as lines", of: ["look", "layer", "head", "token"], style: "wide" });
    follow(["look", "layer", "head"], () => {
      thumbs.forEach((room, n) => { room.hidden = looks[n] !== lookOf(scene); });
      drawHeadMap(map, lookOf(scene));
    });
    follow(["look", "layer", "head", "token", "source"], () => {
      const look = lookOf(scene), rows = weightsOf(look, layerOf(look), state.head), asking = askingOf(look);
      writeProse(said, inWordsOf(look, rows));
      drawLines(lines, look, rows);
      describe(lines, `${quotedAmong(look.asking, asking)} looks at: ${strongest(rows[asking], 12).map(({ weight, key }) => `${quotedAmong(look.tokens, key)} ${percent(weight)}`).join(", ")}`);
    });
    add(place, "p", { class: "honest" }, "What attention does not show: a weight is the share of a value in a mean, not its importance for the answer. The value may be small, it already mixes what earlier layers took up, and other heads may do the same work. Compare with “Switch a head off” below.");
  },
});

const strongest = (row, count) => Array.from(row, (weight, key) => ({ weight, key })).sort((a, b) => b.weight - a.weight).slice(0, count);

// Which tokens look at which.
function addLooks(place, looks) {
  const line = add(place, "div", { class: "controls looks", role: "group", "aria-label": "attention of" });
  const buttons = looks.map(({ label }, look) => {
    const button = add(line, "button", { type: "button" }, label);
    button.addEventListener("click", () => choose({ look, key: null }));
    return button;
  });
  follow(["look"], () => buttons.forEach((button, n) => button.setAttribute("aria-pressed", n === lookNumber())));
}

const askingPick = (look, label) => tokenPick({ tokens: look.asking }, look.place, askingOf(look), label, "query");

function inWordsOf(look, rows) {
  const asking = askingOf(look), parts = strongest(rows[asking], 4).filter(({ weight }, n) => n === 0 || weight > 0.01);
  return [
    "In layer ", layerPick(look), ", head ", headPick(look), ", ", askingPick(look, "query token"), " looks at ",
    ...parts.flatMap(({ weight, key }, n) => [n ? ", " : "", term(quotedAmong(look.tokens, key), "key"), " ", term(percent(weight), "weight", ref("weight", lookNumber(), layerOf(look), state.head, asking, key))]), ".",
  ];
}

// --- all heads ---

// A small map for each head; rows of the grid are layers.
function drawThumbs(place, stream) {
  const heads = stream.layers[0].query.shape[0];
  const table = add(add(place, "div", { class: "scroll" }), "table", { class: "thumbs" });
  const head = add(add(table, "thead"), "tr");
  add(head, "td", {}, "");
  for (let n = 0; n < heads; n += 1) add(head, "th", { scope: "col" }, String(n));
  const body = add(table, "tbody"), size = Math.min(stream.tokens.length, THUMB), high = Math.min(stream.asking.length, THUMB);
  const buttons = stream.layers.map((_, layer) => {
    const row = add(body, "tr");
    add(row, "th", { scope: "row" }, String(layer));
    return Array.from({ length: heads }, (_, number) => {
      const button = add(add(row, "td"), "button", { type: "button", class: "thumb", "aria-label": `layer ${layer}, head ${number}` });
      const canvas = add(button, "canvas", { width: size, height: high });
      means(button, "thumb", layer, number);
      button.addEventListener("click", () => choose({ layer, head: number }));
      later(() => paintThumb(canvas, stream, layer, number, size, high));
      return button;
    });
  });
  rove(body, buttons.flat(), heads, state.layer * heads + state.head);
  follow(["layer", "head"], () => buttons.forEach((row, layer) => row.forEach((button, number) => {
    const isChosen = layer === layerOf(stream) && number === state.head;
    button.classList.toggle("chosen", isChosen);
    button.setAttribute("aria-pressed", isChosen);
  })));
}

// Long texts: the mean of the weights behind each pixel, from some of its queries.
function paintThumb(canvas, stream, layer, head, size, high) {
  const step = stream.tokens.length / size, stepDown = stream.asking.length / high;
  const rows = Array.from({ length: high }, (_, row) => {
    const query = Math.floor((row + 0.5) * stepDown), weights = maskedRow(stream, layer, query, weightsAt(stream, layer, head, query));
    if (step === 1) return weights;
    const sums = new Array(size).fill(null);
    weights.forEach((weight, key) => { if (weight !== null) sums[Math.min(size - 1, Math.floor(key / step))] += weight; });
    return sums;
  });
  paint(canvas, rows, bluesOf(Math.max(...rows.flat()))); // in a long text, all weights are small
}

// --- one head ---

// All weights of a head; a click chooses the query and the key.
function drawHeadMap(box, stream) {
  const number = lookNumber(), layer = layerOf(stream), { head } = state;
  const rows = weightsOf(stream, layer, head).map((row, query) => maskedRow(stream, layer, query, row));
  const count = rows.length, wide = stream.tokens.length;
  let most = 0;
  for (const row of rows) for (const each of row) if (each > most) most = each;
  box.textContent = "";
  drawMatrix(box, {
    rows: count, columns: wide, value: (r, c) => rows[r][c], colour: bluesOf(most), rowNames: stream.asking, columnNames: stream.tokens,
    label: `weights of head ${head} in layer ${layer}, ${count} queries by ${wide} keys`, size: Math.max(9, Math.min(20, 320 / wide)), most: Math.min(320, box.clientWidth - 76 || 320),
    at: (query, key) => ref("weight", number, layer, head, query, key), pick: (query, key) => choose({ [stream.place]: query, key }),
    spots: (of) => spotIn(of, "weight", ([s, l, h, query, key]) => (s === number && l === layer && h === head ? [query, key, 1, 1] : null)),
  });
  addScale(box, most, { colour: blues, hidden: hiddenKeys(stream) });
}

// The tokens twice, on the left those that look, on the right those looked at, with lines between.
function drawLines(place, stream, rows) {
  const hadFocus = place.contains(document.activeElement); // the keyboard goes on from there
  place.textContent = "";
  const count = Math.max(stream.tokens.length, stream.asking.length), asking = askingOf(stream);
  if (count > MOST_LINES) return drawColumns(place, stream, rows);
  // On a phone, all of it is narrower: a picture that has to be scrolled hides where lines lead.
  const room = place.clientWidth || 600, left = Math.max(96, Math.min(150, Math.floor(room / 3.2)));
  const high = 24, wide = Math.max(90, Math.min(300, room - 2 * left - 8));
  const letters = Math.floor((left - 54) / 8); // beside the share
  const svg = add(place, "svg", { role: "group", "aria-label": "attention as lines", width: left * 2 + wide, height: count * high + 26 });
  add(svg, "text", { class: "name of-query", x: left - 8, y: 14, "text-anchor": "end" }, "query");
  add(svg, "text", { class: "name of-key", x: left + wide + 8, y: 14 }, "key");
  const y = (n) => 26 + (n + 0.5) * high, middle = left + wide / 2;
  const line = (query, key) => `M${left} ${y(query)}C${middle} ${y(query)} ${middle} ${y(key)} ${left + wide} ${y(key)}`;
  const behind = add(svg, "g"), front = add(svg, "g");
  rows.forEach((row, query) => row.forEach((weight, key) => {
    if (weight >= 0.05) add(behind, "path", { class: "look", d: line(query, key), "stroke-width": 1 + 3 * weight, "stroke-opacity": 0.18 * weight });
  }));
  const [queries, keys] = ["queries", "keys"].map((name) => add(svg, "g", { role: "group", "aria-label": name }));
  const asks = stream.asking.map((token, n) => addAsking(queries, { token, y: y(n), left, letters, of: ["token", stream.asks, n] }));
  const sides = stream.tokens.map((token, n) => addAnswering(keys, { token, y: y(n), left, wide, letters }));
  const at = [lookNumber(), layerOf(stream), state.head];
  const emphasise = (query) => {
    front.textContent = "";
    rows[query].forEach((weight, key) => {
      if (weight >= 0.005) add(front, "path", { class: "look chosen", d: line(query, key), "stroke-width": 1 + 9 * weight, "stroke-opacity": 0.25 + 0.75 * weight });
    });
    asks.forEach((each, n) => each.classList.toggle("chosen", n === query));
    const isHidden = hiddenFrom(stream, layerOf(stream), query);
    sides.forEach(({ answers, share, box }, n) => {
      answers.classList.toggle("masked", isHidden(n));
      means(answers, "weight", ...at, query, n);
      box.setAttribute("fill-opacity", rows[query][n]);
      share.textContent = rows[query][n] >= 0.005 ? percent(rows[query][n], 0) : "";
    });
  };
  asks.forEach((each, n) => {
    each.addEventListener("pointerenter", () => emphasise(n));
    pressable(each, () => choose({ [stream.place]: n, key: null }));
    each.addEventListener("focus", () => choose({ [stream.place]: n, key: null }));
  });
  sides.forEach(({ answers }, n) => {
    pressable(answers, () => choose({ key: n }));
  });
  svg.addEventListener("pointerleave", () => emphasise(asking));
  emphasise(asking);
  rove(queries, asks, 1, asking);
  rove(keys, sides.map(({ answers }) => answers), 1, Math.min(state.key ?? 0, sides.length - 1));
  if (hadFocus) asks[asking].focus({ preventScroll: true });
}

function addAsking(queries, { token, y, left, letters, of }) {
  const asks = means(add(queries, "g", { class: "side-token", role: "button", "data-acts": "" }), ...of);
  add(asks, "rect", { x: 4, y: y - 11, width: left - 8, height: 22, rx: 4 });
  add(asks, "text", { x: left - 10, y: y + 5, "text-anchor": "end" }, short(visible(token), letters));
  return asks;
}

function addAnswering(keys, { token, y, left, wide, letters }) {
  const label = short(visible(token), letters);
  const answers = add(keys, "g", { class: "side-key", role: "button", "data-acts": "" });
  const box = add(answers, "rect", { x: left + wide, y: y - 11, width: left - 8, height: 22, rx: 4 });
  add(answers, "text", { x: left + wide + 8, y: y + 5 }, label);
  const share = add(answers, "text", { class: "share-text", x: 2 * left + wide - 14, y: y + 5, "text-anchor": "end" }, "");
  return { answers, share, box };
}

// Long texts: the tokens that the chosen one looks at most, as a list.
function drawColumns(place, stream, rows) {
  const asking = askingOf(stream), order = strongest(rows[asking], 30), of = (key) => ["weight", lookNumber(), layerOf(stream), state.head, asking, key];
  drawBars(place, order.map(({ weight, key }) => ({
    name: stream.tokens[key], at: key, value: weight, text: percent(weight), of: of(key),
  })), Math.max(order[0].weight, 1e-9), "key");
  add(place, "p", { class: "hint" }, `The ${order.length} largest of ${stream.tokens.length} weights.`);
}
