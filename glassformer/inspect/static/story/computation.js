// One weight, written out with its numbers: query · key / √d → mask → softmax → mean of values.

chapters.push({
  id: "computation",
  title: "One weight, step by step",
  equation: (scene) => [{ text: "output", kind: "output" }, " = Σ softmax(", ...scaledProduct(lookOf(scene)), ...addedToScores(lookOf(scene)), ") · ", VALUE],
  note: "The arithmetic behind one line of the picture above, with the numbers of the model. Point at any cell to see what it was computed from.",
  isShown: (scene) => Boolean(scene.main.layers),
  draw(place, scene) {
    const said = add(place, "p", { class: "said" });
    const box = addFigure(place, { name: "One weight, step by step", of: ["look", "layer", "head", "token", "key"], style: "wide", caption: "Each strip is a vector, a cell a number: blue is positive, orange negative, and the strongest colour is the largest number of the strip." });
    box.classList.add("sum");
    follow(["look", "layer", "head", "token", "source", "key"], () => {
      box.textContent = "";
      writeOut(box, lookOf(scene), said);
    });
  },
});

const shownKey = (weights) => (state.key === null || weights[state.key] === undefined ? weights.indexOf(Math.max(...weights)) : state.key);

function writeOut(box, stream, said) {
  const { head } = state, layer = layerOf(stream), query = positionIn(stream, layer, askingOf(stream)), at = [lookNumber(), layer, head];
  const scores = scoresOf(stream, layer, head, query), weights = sharesOf(scores), key = shownKey(weights);
  const parts = headOf(stream.layers[layer], head), { width } = parts;
  const asks = vectorAt(parts.query, width, query), answers = vectorAt(parts.key, width, key);
  const [from, to] = [nameAmong(askingStream(stream), layer, query), nameAmong(stream, layer, key)];
  writeProse(said, ["Layer ", layerPick(stream), ", head ", headPick(stream), ": how much ", placePick(askingStream(stream), layer, stream.place, query, "query token", "query"), " looks at ", placePick(stream, layer, "key", key, "key token", "key"), "."]);
  const [queryName, keyName] = stream.wiring?.qk_norm ? ["norm(query)", "norm(key)"] : ["query", "key"];
  addStep(box, "query", `${queryName} of ${from}`, asks, ["query", ...at, query]);
  addStep(box, "key", `${keyName} of ${to}`, answers, ["key", ...at, key]);
  addStep(box, "", "products, number by number", Array.from(asks, (each, n) => each * answers[n]), ["product", ...at, query, key]);
  const sum = dotOf(asks, answers), root = Math.sqrt(width), bias = biasOf(stream, layer, head, query, key);
  const score = term(number(sum / root + bias), "score", ref("score", ...at, query, key));
  addLine(box, ["their sum ", number(sum), ` / √${width}`, bias ? ` + ${number(bias)} for the distance` : "", " = score ", score]);
  if (scores[key] === -Infinity) {
    addLine(box, [`${whyHidden(stream, layer, query, key)}, so the weight is exactly 0.`]);
    return;
  }
  const allowed = Array.from(scores).filter(Number.isFinite).length;
  const total = Array.from(scores).reduce((a, each) => a + Math.exp(each), 0);
  const several = stream.layers[layer].grid ? "places" : unitsOf(stream);
  const units = allowed === 1 ? several.replace(/(?<=h)es$|s$/, "") : several;
  addLine(box, [`softmax over ${allowed} ${units}: e^${number(sum / root + bias)} / ${number(total)} = weight `, term(percent(weights[key], 2), "weight", ref("weight", ...at, query, key))]);
  const order = strongest(weights, Math.min(8, allowed));
  drawBars(add(box, "div", { class: "shares" }), order.map(({ weight, key: n }) => ({
    name: nameIn(stream, layer, n), at: placeAmong(stream.tokens, n), value: weight, text: percent(weight, 2), style: n === key ? "chosen" : "", of: ["weight", ...at, query, n],
  })), order[0].weight, "key");
  const mean = new Float64Array(width);
  weights.forEach((weight, n) => { if (weight) vectorAt(parts.value, width, n).forEach((each, k) => { mean[k] += weight * each; }); });
  addStep(box, "value", `value of ${to}, which enters with ${percent(weights[key], 2)}`, vectorAt(parts.value, width, key), ["value", ...at, key]);
  addStep(box, "output", `output of the head for ${from}: the sum of all weighted values`, mean, ["output", ...at, query]);
}

// A token to choose; where places of a picture are merged, a position is no token.
const placePick = (stream, layer, name, at, label, kind) => (
  stream.layers[layer].grid ? term(quoted(nameIn(stream, layer, at)), kind) : tokenPick(stream, name, at, label, kind)
);

function addLine(box, parts) {
  writeProse(add(box, "p", { class: "step" }), parts);
}

// A vector as a strip of coloured cells; pointing at a cell shows where its number comes from.
function addStep(box, kind, title, values, of) {
  const row = add(box, "div", { class: `vector ${kind && `of-${kind}`}` });
  add(row, "span", { class: "vector-name" }, title);
  const label = `${title}: ${values.length} numbers, ${Array.from(values.slice(0, 6), number).join(", ")} …`;
  const strip = means(add(row, "span", { class: "cells", role: "group", "aria-label": label }), ...of, "*");
  const most = Math.max(1e-9, ...Array.from(values, Math.abs));
  const cells = Array.from(values, (value, n) => {
    const cell = add(strip, "span", { class: value < 0 ? "cell minus" : "cell plus", role: "img", "aria-label": `${n}: ${number(value)}` });
    cell.style.setProperty("--share", Math.abs(value) / most);
    return means(cell, ...of, n);
  });
  rove(strip, cells);
  add(row, "span", { class: "range" }, `up to ${number(most)}`);
}
