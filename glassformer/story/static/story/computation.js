// One weight, written out with its numbers: query · key / √d → mask → softmax → mean of values.

chapters.push({
  id: "computation",
  title: "One weight, step by step",
  note: "The arithmetic behind one line of the picture above, with the model's own numbers.",
  isShown: (scene) => Boolean(scene.main.layers),
  draw(place, scene) {
    const box = add(place, "div", { class: "sum" });
    follow(["layer", "head", "token", "key"], () => {
      box.textContent = "";
      writeOut(box, scene.main);
    });
  },
});

const strip = (vector) => Array.from(vector);

function writeOut(box, stream) {
  const { layer, head } = state, query = positionIn(stream, layer, state.token);
  const scores = scoresOf(stream, layer, head, query), weights = sharesOf(scores);
  const best = weights.indexOf(Math.max(...weights));
  const key = state.key === null || scores[state.key] === undefined ? best : state.key;
  const parts = headOf(stream.layers[layer], head);
  const asks = vectorAt(parts.query, parts.width, query), answers = vectorAt(parts.key, parts.width, key);
  const products = strip(asks).map((each, n) => each * answers[n]);
  const [from, to] = [query, key].map((n) => quoted(nameIn(stream, layer, n)));
  addStep(box, "query", `query of ${from}`, strip(asks));
  addStep(box, "key", `key of ${to}`, strip(answers));
  addStep(box, "", "products, number by number", products);
  const sum = products.reduce((a, b) => a + b, 0), root = Math.sqrt(parts.width);
  const bias = biasOf(stream, layer, head, query, key);
  const added = bias ? ` + ${number(bias)} for the distance` : "";
  addLine(box, `their sum ${number(sum)} / √${parts.width}${added} = score ${number(sum / root + bias)}`);
  if (stream.causal && key > query) {
    addLine(box, `${to} comes later: the causal mask sets the score to −∞, so the weight is exactly 0.`);
    return;
  }
  if (scores[key] === -Infinity) {
    addLine(box, `${to} is in another window, so the weight is exactly 0.`);
    return;
  }
  const allowed = Array.from(scores).filter(Number.isFinite).length;
  const total = Array.from(scores).reduce((a, score) => a + Math.exp(score), 0);
  addLine(box, `softmax over ${allowed} ${allowed === 1 ? unitsOf(stream).replace(/e?s$/, "") : unitsOf(stream)}: e^${number(sum / root + bias)} / ${number(total)} = weight ${percent(weights[key], 2)}`);
  const table = add(box, "div", { class: "shares" });
  drawBars(table, weights.map((weight, n) => ({ weight, n })).filter(({ n }) => Number.isFinite(scores[n]))
    .sort((a, b) => b.weight - a.weight).slice(0, 8)
    .map(({ weight, n }) => ({ name: nameIn(stream, layer, n), value: weight, text: percent(weight, 2), style: n === key ? "chosen" : "" })), Math.max(...weights));
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
