// One weight, written out with its numbers: query · key / √d → mask → softmax → mean of values.

chapters.push({
  id: "computation",
  title: "One weight, step by step",
  note: "The arithmetic behind one line of the picture above, with the model's own numbers.",
  isShown: (scene) => Boolean(scene.main.layers),
  draw(place, scene) {
    const box = add(place, "div", { class: "sum" });
    follow(["look", "layer", "head", "token", "source", "key"], () => {
      box.textContent = "";
      writeOut(box, lookOf(scene));
    });
  },
});

const strip = (vector) => Array.from(vector);

function writeOut(box, stream) {
  const { head } = state, layer = layerOf(stream), query = askingOf(stream);
  const scores = scoresOf(stream, layer, head, query), weights = sharesOf(scores);
  const best = weights.indexOf(Math.max(...weights));
  const key = state.key === null || scores[state.key] === undefined ? best : state.key;
  const parts = headOf(stream.layers[layer], head);
  const asks = vectorAt(parts.query, parts.width, query), answers = vectorAt(parts.key, parts.width, key);
  const products = strip(asks).map((each, n) => each * answers[n]);
  const [from, to] = [quoted(stream.asking[query]), quoted(stream.tokens[key])];
  addStep(box, "query", `query of ${from}`, strip(asks));
  addStep(box, "key", `key of ${to}`, strip(answers));
  addStep(box, "", "products, number by number", products);
  const sum = products.reduce((a, b) => a + b, 0), root = Math.sqrt(parts.width);
  const bias = biasOf(stream, head, query, key);
  const added = bias ? ` + ${number(bias)} for the distance` : "";
  addLine(box, `their sum ${number(sum)} / √${parts.width}${added} = score ${number(sum / root + bias)}`);
  if (stream.causal && key > query) {
    addLine(box, `${to} comes later: the causal mask sets the score to −∞, so the weight is exactly 0.`);
    return;
  }
  const allowed = stream.causal ? query + 1 : stream.tokens.length;
  const total = Array.from(scores).slice(0, allowed).reduce((a, score) => a + Math.exp(score), 0);
  addLine(box, `softmax over ${allowed} ${allowed === 1 ? "token" : "tokens"}: e^${number(sum / root + bias)} / ${number(total)} = weight ${percent(weights[key], 2)}`);
  const table = add(box, "div", { class: "shares" });
  drawBars(table, weights.map((weight, n) => ({ weight, n })).filter(({ n }) => n < allowed)
    .sort((a, b) => b.weight - a.weight).slice(0, 8)
    .map(({ weight, n }) => ({ name: stream.tokens[n], value: weight, text: percent(weight, 2), style: n === key ? "chosen" : "" })), Math.max(...weights));
  const mean = new Array(parts.width).fill(0);
  weights.forEach((weight, n) => vectorAt(parts.value, parts.width, n).forEach((each, at) => { mean[at] += weight * each; }));
  addStep(box, "value", `value of ${to}, which enters with ${percent(weights[key], 2)}`, strip(vectorAt(parts.value, parts.width, key)));
  addStep(box, "output", `output of the head for ${from}: the sum of all weighted values`, mean);
}

function addLine(box, text) {
  add(box, "p", { class: "step" }, text);
}

// A vector as a strip of coloured cells; pointing at a cell shows its number.
function addStep(box, kind, title, values) {
  const row = add(box, "div", { class: `vector ${kind && `of-${kind}`}` });
  add(row, "span", { class: "vector-name" }, title);
  const strip = add(row, "span", { class: "cells", role: "img", "aria-label": `${title}: ${values.length} numbers` });
  const most = Math.max(1e-9, ...values.map(Math.abs));
  for (const [place, value] of values.entries()) {
    const cell = add(strip, "span", { class: value < 0 ? "cell minus" : "cell plus", title: `${place}: ${number(value)}` });
    cell.style.setProperty("--share", Math.abs(value) / most);
  }
  add(row, "span", { class: "range" }, `up to ${number(most)}`);
}
