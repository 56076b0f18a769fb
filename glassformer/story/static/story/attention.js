// Chapter 3: who looks at whom. All heads at a glance, one head as lines and as a map.

const THUMB = 64;

chapters.push({
  id: "attention",
  title: "Attention",
  note: "In every layer, every head lets each token look at others and take a weighted mean of what it finds. Choose a head on the left; choose a token to see where it looks.",
  isShown: (scene) => Boolean(scene.main.layers),
  draw(place, scene) {
    const looks = looksOf(scene);
    if (looks.length > 1) addLooks(place, looks);
    const layout = add(place, "div", { class: "attention" });
    const thumbs = looks.map((look) => {
      const room = add(layout, "div", { class: "heads" });
      drawThumbs(room, look);
      return room;
    });
    const view = add(layout, "div", { class: "one-head" });
    const said = add(view, "p", { class: "said", "aria-live": "polite" });
    const lines = add(view, "div", { class: "lines scroll" });
    follow(["look", "layer", "head", "token", "source"], () => {
      const look = lookOf(scene);
      thumbs.forEach((room, n) => { room.hidden = looks[n] !== look; });
      const rows = weightsOf(look, layerOf(look), state.head);
      said.textContent = inWordsOf(look, rows);
      drawLines(lines, look, rows);
    });
    add(place, "p", { class: "hint honest" }, "A weight says how much of a value enters the mean, not how much it matters for the answer: a large weight may carry little, and what was taken up in earlier layers is already mixed. Compare with “Switch a head off” below.");
  },
});

// Which tokens look at which.
function addLooks(place, looks) {
  const line = add(place, "div", { class: "controls looks", role: "group", "aria-label": "attention of" });
  const buttons = looks.map(({ label }, look) => {
    const button = add(line, "button", { type: "button" }, label);
    button.addEventListener("click", () => choose({ look, key: null }));
    return button;
  });
  follow(["look"], () => buttons.forEach((button, n) => {
    button.setAttribute("aria-pressed", n === Math.min(state.look, looks.length - 1));
  }));
}

function inWordsOf(stream, rows) {
  const asking = askingOf(stream);
  const order = rows[asking].map((weight, key) => ({ weight, key })).sort((a, b) => b.weight - a.weight);
  const parts = order.slice(0, 4).filter(({ weight }, n) => n === 0 || weight > 0.01)
    .map(({ weight, key }) => `${quoted(stream.tokens[key])} ${percent(weight)}`);
  return `Layer ${layerOf(stream)}, head ${state.head}: ${quoted(stream.asking[asking])} looks at ${parts.join(", ")}`;
}

// A small map for each head; rows of the grid are layers.
function drawThumbs(place, stream) {
  const heads = stream.layers[0].query.shape[0];
  const table = add(place, "table", { class: "thumbs" });
  const head = add(add(table, "thead"), "tr");
  add(head, "th", {}, "");
  for (let n = 0; n < heads; n += 1) add(head, "th", { scope: "col" }, String(n));
  add(place, "p", { class: "hint" }, "Rows: layers; columns: heads. The strongest colour is the largest weight of a head.");
  const body = add(table, "tbody");
  const buttons = stream.layers.map((_, layer) => {
    const row = add(body, "tr");
    add(row, "th", { scope: "row" }, String(layer));
    return Array.from({ length: heads }, (_, number) => {
      const cell = add(row, "td");
      const button = add(cell, "button", { type: "button", class: "thumb", "aria-label": `layer ${layer}, head ${number}` });
      const size = Math.min(stream.tokens.length, THUMB), high = Math.min(stream.asking.length, THUMB);
      const canvas = add(button, "canvas", { width: size, height: high });
      button.addEventListener("click", () => choose({ layer, head: number }));
      later(() => paintThumb(canvas, stream, layer, number, size, high));
      return button;
    });
  });
  follow(["layer", "head"], () => buttons.forEach((row, layer) => row.forEach((button, number) => {
    button.classList.toggle("chosen", layer === layerOf(stream) && number === state.head);
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
function paintThumb(canvas, stream, layer, head, size, high) {
  const step = stream.tokens.length / size, stepDown = stream.asking.length / high;
  const rows = Array.from({ length: high }, (_, row) => {
    const weights = weightsAt(stream, layer, head, Math.floor((row + 0.5) * stepDown));
    if (step === 1) return weights;
    const sums = new Array(size).fill(0);
    weights.forEach((weight, key) => { sums[Math.min(size - 1, Math.floor(key / step))] += weight; });
    return sums;
  });
  const most = Math.max(...rows.flat()); // in a long text, all weights are small
  paint(canvas, rows, (share) => [64, 134, 228, 255 * Math.sqrt(share / most)]);
}

// The tokens twice, one below the other for those that look and those looked at, with lines.
function drawLines(place, stream, rows) {
  const hadFocus = place.contains(document.activeElement); // the keyboard goes on from there
  place.textContent = "";
  const count = Math.max(stream.tokens.length, stream.asking.length), asking = askingOf(stream);
  if (count > 80) return drawColumns(place, stream, rows);
  const svg = add(place, "svg", { role: "img", "aria-label": "attention as lines" });
  // On a phone, all of it is narrower: a picture that has to be scrolled hides where lines lead.
  const room = place.clientWidth || 600, left = Math.max(96, Math.min(150, Math.floor(room / 3.2)));
  const high = 24, wide = Math.max(90, Math.min(300, room - 2 * left - 8));
  const letters = Math.floor((left - 54) / 8); // beside the share
  svg.setAttribute("width", left * 2 + wide);
  svg.setAttribute("height", count * high + 26);
  add(svg, "text", { class: "name of-query", x: left - 8, y: 14, "text-anchor": "end" }, "query");
  add(svg, "text", { class: "name of-key", x: left + wide + 8, y: 14 }, "key");
  const y = (n) => 26 + (n + 0.5) * high;
  const behind = add(svg, "g");
  rows.forEach((row, query) => row.forEach((weight, key) => {
    const isChosen = query === asking;
    if (weight < (isChosen ? 0.005 : 0.05)) return;
    const middle = left + wide / 2;
    add(behind, "path", {
      class: isChosen ? "look chosen" : "look",
      d: `M${left} ${y(query)}C${middle} ${y(query)} ${middle} ${y(key)} ${left + wide} ${y(key)}`,
      "stroke-width": isChosen ? 1 + 9 * weight : 1 + 3 * weight,
      "stroke-opacity": isChosen ? 0.25 + 0.75 * weight : 0.18 * weight,
    });
  }));
  stream.asking.forEach((token, number) => {
    const label = short(visible(token), letters);
    const asks = add(svg, "g", { class: `side-token${number === asking ? " chosen" : ""}`, tabindex: 0, role: "button" });
    add(asks, "rect", { x: 4, y: y(number) - 11, width: left - 8, height: 22, rx: 4 });
    add(asks, "text", { x: left - 10, y: y(number) + 5, "text-anchor": "end" }, label);
    asks.addEventListener("mouseenter", () => choose({ [stream.place]: number, key: null }));
    asks.addEventListener("focus", () => choose({ [stream.place]: number, key: null }));
  });
  stream.tokens.forEach((token, number) => {
    const label = short(visible(token), letters), weight = rows[asking][number];
    const answers = add(svg, "g", { class: "side-key", tabindex: 0, role: "button" });
    const box = add(answers, "rect", { x: left + wide, y: y(number) - 11, width: left - 8, height: 22, rx: 4 });
    box.setAttribute("fill-opacity", weight);
    add(answers, "text", { x: left + wide + 8, y: y(number) + 5 }, label);
    const share = weight >= 0.005 ? percent(weight, 0) : "";
    add(answers, "text", { class: "share-text", x: 2 * left + wide - 14, y: y(number) + 5, "text-anchor": "end" }, share);
    answers.addEventListener("click", () => choose({ key: number }));
    answers.addEventListener("keydown", (event) => { if (event.key === "Enter") choose({ key: number }); });
  });
  if (hadFocus) svg.querySelector(".side-token.chosen").focus({ preventScroll: true });
  return svg;
}

// Long texts: the tokens that the chosen one looks at most, as a list.
function drawColumns(place, stream, rows) {
  const order = rows[askingOf(stream)].map((weight, key) => ({ weight, key }))
    .sort((a, b) => b.weight - a.weight).slice(0, 30);
  drawBars(place, order.map(({ weight, key }) => ({
    name: `${stream.tokens[key]}`, value: weight, text: `${percent(weight)}  at ${key}`,
  })), Math.max(order[0].weight, 1e-9));
}
