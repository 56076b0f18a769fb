// Chapter 3: who looks at whom. All heads at a glance, one head as lines and as a map.

const THUMB = 64, MOST_LINES = 80, NAMED_ROWS = 28;

chapters.push({
  id: "attention",
  title: "Attention",
  equation: ["weights = softmax(", { text: "query", kind: "query" }, " · ", { text: "key", kind: "key" }, "ᵀ / √d)"],
  note: "In every layer, every head lets each token look at others and take a weighted mean of what it finds. Choose a head in the grid; point at a token to see where it looks, click to keep it.",
  isShown: (scene) => Boolean(scene.main.layers),
  draw(place, scene) {
    if (scene.main.picture) {
      drawPictureAttention(place, scene);
      return;
    }
    if (scene.streams.length > 1) add(place, "p", { class: "hint" }, `These are the tokens of the ${scene.main.name}, which look at each other; ${sourceOf(scene).picture ? "“Words and the picture” above" : "the chapter “Looking at the source”"} shows how they look at the ${scene.main.memory}.`);
    const layout = add(place, "div", { class: "attention" });
    const left = add(layout, "div", { class: "heads" });
    const grid = addFigure(left, { name: "All heads", caption: "A small map for each head. Rows: layers; columns: heads. The strongest colour is the largest weight of a head." });
    drawThumbs(grid, scene.main);
    const map = addFigure(left, { name: "Map of one head", of: ["layer", "head"], caption: "All weights of the chosen head. A row is a query, a column a key; each row adds up to 1." });
    const view = add(layout, "div", { class: "one-head" });
    const said = add(view, "p", { class: "said" });
    const lines = addFigure(view, { name: "One head as lines", of: ["layer", "head", "token"], style: "wide" });
    follow(["layer", "head"], () => drawHeadMap(map, scene.main, mainStream()));
    follow(["layer", "head", "token"], () => {
      const rows = weightsOf(scene.main, state.layer, state.head);
      writeProse(said, inWordsOf(scene.main, rows));
      drawLines(lines, scene.main, rows);
      describe(lines, `${quoted(scene.main.tokens[state.token])} looks at: ${strongest(rows[state.token], 12).map(({ weight, key }) => `${quoted(scene.main.tokens[key])} ${percent(weight)}`).join(", ")}`);
    });
    add(place, "p", { class: "honest" }, "What attention does not show: a weight says how much of a value enters the mean, not how much it matters for the answer. A large weight may carry a small value, what earlier layers took up is already mixed in, and other heads may do the same work. Compare with “Switch a head off” below.");
  },
});

const strongest = (row, count) => Array.from(row, (weight, key) => ({ weight, key })).sort((a, b) => b.weight - a.weight).slice(0, count);

function inWordsOf(stream, rows) {
  const parts = strongest(rows[state.token], 4).filter(({ weight }, n) => n === 0 || weight > 0.01);
  return [
    "In layer ", layerPick(stream), ", head ", headPick(stream), ", ", tokenPick(stream, "token", state.token, "query token", "query"), " looks at ",
    ...parts.flatMap(({ weight, key }, n) => [n ? ", " : "", term(quoted(stream.tokens[key]), "key"), " ", term(percent(weight), "weight", ref("weight", mainStream(), state.layer, state.head, state.token, key))]), ".",
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
  const body = add(table, "tbody"), size = Math.min(stream.tokens.length, THUMB);
  const buttons = stream.layers.map((_, layer) => {
    const row = add(body, "tr");
    add(row, "th", { scope: "row" }, String(layer));
    return Array.from({ length: heads }, (_, number) => {
      const button = add(add(row, "td"), "button", { type: "button", class: "thumb", "aria-label": `layer ${layer}, head ${number}` });
      const canvas = add(button, "canvas", { width: size, height: size });
      means(button, "thumb", layer, number);
      button.addEventListener("click", () => choose({ layer, head: number }));
      later(() => paintThumb(canvas, stream, layer, number, size));
      return button;
    });
  });
  rove(body, buttons.flat(), heads, state.layer * heads + state.head);
  follow(["layer", "head"], () => buttons.forEach((row, layer) => row.forEach((button, number) => {
    const isChosen = layer === state.layer && number === state.head;
    button.classList.toggle("chosen", isChosen);
    button.setAttribute("aria-pressed", isChosen);
  })));
}

// Work that may wait until the page is drawn.
const waiting = [];

function later(work) {
  waiting.push(work);
  if (waiting.length > 1) return;
  const some = () => {
    const until = Date.now() + 12;
    while (waiting.length && Date.now() < until) waiting.shift()();
    if (waiting.length) setTimeout(some);
  };
  setTimeout(some);
}

// Long texts: the mean of the weights behind each pixel, from some of its queries.
function paintThumb(canvas, stream, layer, head, size) {
  const length = stream.tokens.length, step = length / size;
  const rows = Array.from({ length: size }, (_, row) => {
    const weights = weightsAt(stream, layer, head, Math.floor((row + 0.5) * step));
    if (step === 1) return weights;
    const sums = new Array(size).fill(0);
    weights.forEach((weight, key) => { sums[Math.min(size - 1, Math.floor(key / step))] += weight; });
    return sums;
  });
  const most = Math.max(...rows.flat()); // in a long text, all weights are small
  paint(canvas, rows, (share) => blues(share / most));
}

// --- one head ---

// All weights of a head; a click chooses the query and the key.
function drawHeadMap(box, stream, number) {
  const rows = weightsOf(stream, state.layer, state.head), count = rows.length, { layer, head } = state;
  let most = 0;
  for (const row of rows) for (const each of row) if (each > most) most = each;
  const names = count <= NAMED_ROWS ? stream.tokens : null;
  box.textContent = "";
  drawMatrix(box, {
    rows: count, columns: count, value: (r, c) => rows[r][c] / most, colour: blues, rowNames: names, columnNames: names,
    label: `weights of head ${head} in layer ${layer}, ${count} queries by ${count} keys`, size: Math.max(9, Math.min(20, 300 / count)), most: 340,
    at: (query, key) => ref("weight", number, layer, head, query, key), pick: (token, key) => choose({ token, key }),
    spots: (of) => spotIn(of, "weight", ([s, l, h, query, key]) => (s === number && l === layer && h === head ? [query, key, 1, 1] : null)),
  });
}

// The tokens twice, on the left those that look, on the right those looked at, with lines between.
function drawLines(place, stream, rows) {
  const hadFocus = place.contains(document.activeElement); // the keyboard goes on from there
  place.textContent = "";
  if (stream.tokens.length > MOST_LINES) return drawColumns(place, stream, rows);
  const count = stream.tokens.length;
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
  const sides = stream.tokens.map((token, n) => addSides(queries, keys, { n, token, y: y(n), left, wide, letters }));
  const emphasise = (query) => {
    front.textContent = "";
    rows[query].forEach((weight, key) => {
      if (weight >= 0.005) add(front, "path", { class: "look chosen", d: line(query, key), "stroke-width": 1 + 9 * weight, "stroke-opacity": 0.25 + 0.75 * weight });
    });
    sides.forEach(({ asks, answers, share, box }, n) => {
      asks.classList.toggle("chosen", n === query);
      means(answers, "weight", mainStream(), state.layer, state.head, query, n);
      box.setAttribute("fill-opacity", rows[query][n]);
      share.textContent = rows[query][n] >= 0.005 ? percent(rows[query][n], 0) : "";
    });
  };
  sides.forEach(({ asks, answers }, n) => {
    asks.addEventListener("pointerenter", () => emphasise(n));
    pressable(asks, () => choose({ token: n, key: null }));
    asks.addEventListener("focus", () => choose({ token: n, key: null }));
    pressable(answers, () => choose({ key: n }));
  });
  svg.addEventListener("pointerleave", () => emphasise(state.token));
  emphasise(state.token);
  rove(queries, sides.map(({ asks }) => asks), 1, state.token);
  rove(keys, sides.map(({ answers }) => answers), 1, state.key ?? 0);
  if (hadFocus) sides[state.token].asks.focus({ preventScroll: true });
}

function addSides(queries, keys, { n, token, y, left, wide, letters }) {
  const label = short(visible(token), letters);
  const asks = means(add(queries, "g", { class: "side-token", role: "button", "data-acts": "" }), "token", mainStream(), n);
  add(asks, "rect", { x: 4, y: y - 11, width: left - 8, height: 22, rx: 4 });
  add(asks, "text", { x: left - 10, y: y + 5, "text-anchor": "end" }, label);
  const answers = add(keys, "g", { class: "side-key", role: "button", "data-acts": "" });
  const box = add(answers, "rect", { x: left + wide, y: y - 11, width: left - 8, height: 22, rx: 4 });
  add(answers, "text", { x: left + wide + 8, y: y + 5 }, label);
  const share = add(answers, "text", { class: "share-text", x: 2 * left + wide - 14, y: y + 5, "text-anchor": "end" }, "");
  return { asks, answers, share, box };
}

// Long texts: the tokens that the chosen one looks at most, as a list.
function drawColumns(place, stream, rows) {
  const order = strongest(rows[state.token], 30), of = (key) => ["weight", mainStream(), state.layer, state.head, state.token, key];
  drawBars(place, order.map(({ weight, key }) => ({
    name: stream.tokens[key], value: weight, text: `${percent(weight)}  at ${key}`, of: of(key),
  })), Math.max(order[0].weight, 1e-9), "key");
  add(place, "p", { class: "hint" }, `The ${order.length} largest of ${stream.tokens.length} weights.`);
}
