// What the page's own model computes on a text that the reader typed: the same kind of scene as the
// one that Python wrote.

const MOST_LENS = 48; // tokens, up to which the lens follows every keystroke

function liveScene(model, live, text, silent, found) {
  const [described] = live.streams;
  live.reader ??= makeTokenizer(live.tokenizers[described.input.tokenizer]);
  const name = (id) => live.reader.token(id), most = model.config.context_length;
  const all = readText(live.reader, described.input, text);
  if (!all.length) throw Error("type a word");
  const ids = described.is_causal ? all.slice(-most) : withoutMiddle(all, most, described.input);
  const seen = model.trace(ids, silent.map(([layer, head]) => [described.stack, layer, head]));
  const { layers, hidden } = seen.stacks[described.stack];
  const main = {
    name: "text", tokens: ids.map(name), ids, memory: null, cross: null,
    causal: described.is_causal, layers, bias: layers[0].bias ?? null,
  };
  const logits = ids.map((_, position) => seen.logits(position));
  const left = all.length - ids.length;
  const focus = focusOf(ids, found.predicts, described.input);
  return {
    ...found, text, main, silent, focus, streams: [main], effects: null,
    beams: text === found.text && !silent.length ? found.beams : null,
    notes: left ? [`the text is too long: the model reads ${number(ids.length)} tokens; ${number(left)} from the ${described.is_causal ? "beginning" : "middle"} of the text are left out`] : [],
    predictions: logits.map((each, position) => livePrediction(each, position, ids, found.predicts, described, name)),
    distribution: liveDistribution(logits[logits.length - 1], name),
    lens: found.lens === null || ids.length > MOST_LENS ? null : hidden.map((layer) => ids.map((_, t) => {
      const width = layer.shape[1];
      return topOf(seen.readOut(layer.data.subarray(t * width, (t + 1) * width)), 5, name);
    })),
    path: livePath(hidden),
    embeddings: found.embeddings && liveEmbeddings(model, described, ids, name, found.embeddings.positions),
    logitsWithout: (layer, head) => {
      const off = [...silent, [layer, head]].map(([l, h]) => [described.stack, l, h]);
      return model.trace(ids, off).logits(focus);
    },
    focusedLogits: logits[focus],
  };
}

// A text that is too long is cut as Python does it: a quarter of the room for the beginning, the rest
// for the end.
function withoutMiddle(ids, most, { before, after }) {
  if (ids.length <= most) return ids;
  const room = Math.max(1, most - before.length - after.length), first = Math.floor(room / 4);
  const text = ids.slice(before.length, ids.length - after.length);
  return [...before, ...text.slice(0, first), ...text.slice(text.length - (room - first)), ...after];
}

// The prediction that is looked at first: that of the first mask, or of the last token of the text.
function focusOf(ids, predicts, { mask, after }) {
  if (predicts === "next") return ids.length - 1;
  const masked = mask === null ? -1 : ids.indexOf(mask);
  return masked >= 0 ? masked : Math.max(0, ids.length - after.length - 1);
}

// The likeliest tokens with their probabilities: [[name, p], …].
function topOf(logits, count, name) {
  const best = [];
  for (let id = 0; id < logits.length; id += 1) {
    if (best.length === count && logits[id] <= logits[best[count - 1]]) continue;
    let at = best.length;
    while (at > 0 && logits[best[at - 1]] < logits[id]) at -= 1;
    best.splice(at, 0, id);
    if (best.length > count) best.pop();
  }
  const total = logTotal(logits);
  return best.map((id) => [name(id), Math.exp(logits[id] - total)]);
}

// log Σ e^logit
function logTotal(logits) {
  let most = -Infinity, sum = 0;
  for (const each of logits) if (each > most) most = each;
  for (const each of logits) sum += Math.exp(each - most);
  return most + Math.log(sum);
}

function livePrediction(logits, position, ids, predicts, { input }, name) {
  const id = predicts === "next" ? ids[position + 1] : ids[position];
  const isKnown = id !== undefined && id !== input.mask;
  return {
    position,
    options: topOf(logits, 10, name).map(([token, probability]) => ({ token, probability })),
    actual: isKnown ? name(id) : null,
    logprob: isKnown ? logits[id] - logTotal(logits) : null,
  };
}

function liveDistribution(logits, name) {
  const order = Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a]);
  const sorted = Float32Array.from(order, (id) => logits[id]);
  return { names: order.slice(0, 200).map(name), logits: { data: sorted, shape: [sorted.length] } };
}

const lengthOfVector = (vector) => Math.sqrt(dotOf(vector, vector));
const unitOf = (vector) => {
  const length = Math.max(lengthOfVector(vector), 1e-9);
  return Float64Array.from(vector, (each) => each / length);
};

// The two directions in which vectors differ most, by repeated multiplication (power iteration).
function mapOfVectors(vectors) {
  const width = vectors[0].length, mean = new Float64Array(width);
  for (const vector of vectors) vector.forEach((each, n) => { mean[n] += each / vectors.length; });
  const rows = vectors.map((vector) => Float64Array.from(vector, (each, n) => each - mean[n]));
  const total = rows.reduce((sum, row) => sum + dotOf(row, row), 0);
  const found = [];
  for (let axis = 0; axis < 2; axis += 1) {
    let direction = Float64Array.from({ length: width }, (_, n) => Math.cos(n + axis + 1)); // any
    for (let round = 0; round < 60; round += 1) {
      for (const known of found) {
        const share = dotOf(direction, known);
        direction = direction.map((each, n) => each - share * known[n]);
      }
      const next = new Float64Array(width);
      for (const row of rows) {
        const share = dotOf(row, direction);
        for (let n = 0; n < width; n += 1) next[n] += share * row[n];
      }
      direction = unitOf(next);
    }
    found.push(direction);
  }
  const places = rows.map((row) => found.map((direction) => dotOf(row, direction)));
  const held = places.flat().reduce((sum, each) => sum + each * each, 0);
  return { places, share: total ? held / total : 0 };
}

function livePath(hidden) {
  const [length, width] = hidden[0].shape;
  const rows = hidden.map(({ data: all }) => Array.from({ length }, (_, t) => all.subarray(t * width, (t + 1) * width)));
  const units = rows.map((layer) => layer.map(unitOf));
  const { places, share } = mapOfVectors(units.flat());
  return {
    share,
    places: units.map((_, layer) => places.slice(layer * length, (layer + 1) * length)),
    norms: rows.map((layer) => layer.map(lengthOfVector)),
    similar: units.slice(1).map((layer, n) => layer.map((unit, t) => dotOf(unit, units[n][t]))),
  };
}

function liveEmbeddings(model, { embedding }, tokens, name, positions) {
  const { data: table, shape: [size, width] } = model.weights.get(`${embedding}.weight`);
  const vector = (id) => table.subarray(id * width, (id + 1) * width);
  const lengths = model.lengths ??= Float64Array.from({ length: size }, (_, id) => Math.max(lengthOfVector(vector(id)), 1e-9));
  const ids = [...new Set(tokens)];
  const near = ids.map((id) => {
    const own = vector(id), similar = new Float64Array(size);
    for (let other = 0; other < size; other += 1) similar[other] = dotOf(own, vector(other)) / (lengths[id] * lengths[other]);
    return Array.from(similar.keys()).filter((other) => other !== id)
      .sort((a, b) => similar[b] - similar[a]).slice(0, 8).map((other) => ({ other, similar: similar[other] }));
  });
  const shown = [...new Set([...ids, ...near.flatMap((each) => each.slice(0, 3).map(({ other }) => other))])];
  const inText = new Set(ids);
  return {
    ids, positions, names: shown.map(name), is_in_text: shown.map((id) => inText.has(id)),
    neighbours: near.map((each) => each.map(({ other, similar }) => [name(other), similar])),
    ...mapOfVectors(shown.map((id) => unitOf(vector(id)))),
  };
}

// How the prediction in focus changes without each head: a run of the model for each, one at a time.
function effectsOfHeads(scene, done) {
  const whole = scene.focusedLogits, total = logTotal(whole), best = whole.indexOf(Math.max(...whole));
  const heads = scene.main.layers[0].query.shape[0];
  const divergence = scene.main.layers.map(() => new Array(heads).fill(0));
  const change = divergence.map((row) => [...row]);
  let missing = divergence.length * heads;
  divergence.forEach((row, layer) => row.forEach((_, head) => later(() => {
    const without = scene.logitsWithout(layer, head), other = logTotal(without);
    let sum = 0;
    for (let id = 0; id < whole.length; id += 1) {
      const p = Math.exp(whole[id] - total);
      if (p > 0) sum += p * (whole[id] - total - without[id] + other);
    }
    divergence[layer][head] = Math.max(0, sum);
    change[layer][head] = without[best] - other - whole[best] + total;
    missing -= 1;
    if (!missing) done({ divergence, change });
  })));
}
