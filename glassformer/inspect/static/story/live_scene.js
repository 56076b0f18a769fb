// What the page's own model computes on a text that the reader typed: the same kind of scene as the
// one that Python wrote.

const MOST_LENS = 48; // tokens, up to which the lens follows every keystroke

// `silent` are heads that are switched off: [layer, head], or [layer, head, group] for those of the
// source or of the attention to it ("cross").
function liveScene(model, live, text, silent, found) {
  const described = live.streams.at(-1);
  const without = (more) => [...silent, ...more].map((each) => silentHead(live, each));
  const reader = readerOf(live, described), tokenName = (id) => reader.token(id);
  const name = live.labels ? (id) => live.labels.names[id] : tokenName;
  const read = live.streams.length > 1 ? liveTranslation(model, live, text, without([])) : readAlone(model, live, text);
  const { inputs, following, notes } = read, ids = inputs.at(-1);
  const seen = model.trace(...inputs, without([]));
  const streams = live.streams.map((stream, n) => liveStream(live, stream, inputs[n], seen, found.streams[n]));
  const main = streams.at(-1), { hidden } = seen.stacks[described.stack];
  const { temperature, are_several: several } = live.labels ?? { temperature: 1, are_several: false };
  const logits = Array.from({ length: seen.length }, (_, n) => seen.logits(n).map((each) => each / temperature));
  const focus = focusOf(ids, found.predicts, described.input);
  const isLensShown = found.lens !== null && found.predicts !== "whole" && ids.length <= MOST_LENS;
  const readings = isLensShown ? hidden.map((layer) => ids.map((_, t) => {
    const width = layer.shape[1];
    return seen.readOut(layer.data.subarray(t * width, (t + 1) * width));
  })) : null;
  const next = {
    ...found, text: read.text ?? text, main, silent, focus, streams, notes, effects: null, more_effects: {}, looks: undefined,
    contributions: found.contributions && { ...found.contributions, values: seen.contributions().map((row) => row.map((each) => each / temperature)), logits: Array.from(logits[0]) },
    attribution: found.attribution && { explained: null }, // gradients need Python
    beams: null,
    searchBeams: found.beams && ((done) => searchBeams(model, live, inputs, following, without([]), name, done)),
    predictions: logits.map((each, position) => livePrediction(each, position, { ids, following, several }, found.predicts, live, name)),
    distributions: {},
    totals: found.totals && logits.map(logSum),
    lens: readings?.map((layer) => layer.map((each) => topOf(each, 5, name, several))) ?? null,
    lensTotals: readings?.map((layer) => layer.map(logSum)) ?? null,
    projection: makeProjection(model, described, () => seen),
    embeddings: found.embeddings && { entry: found.embeddings.entry, ...liveEmbeddings(model, described, ids, tokenName) },
    ...livePredictions(model, live, inputs, silent, () => seen),
    translated: live.streams.length > 1 ? following : null,
  };
  whenRead(next, "path", () => livePath(hidden));
  next.insides = found.residual && liveInsides(next, model, live, () => seen);
  return next;
}

// What the page needs to compute predictions of an input anew: the logits of one, with all heads that
// are on, and without one more of them.
function livePredictions(model, live, inputs, silent, traced) {
  const { temperature, are_several: several } = live.labels ?? { temperature: 1, are_several: false };
  const logitsOf = (seen, at) => seen.logits(at).map((each) => each / temperature);
  const reader = readerOf(live, live.streams.at(-1)), off = silent.map((each) => silentHead(live, each));
  return {
    several,
    foundEffects: undefined, whatIf: undefined, compared: null, foundByBeams: {}, drawnFrom: undefined, cacheCosts: undefined,
    inputs, // ids, for each stream
    // The model with parts changed (see live/model.js), on these tokens or others.
    rerun(changes, rows = inputs) {
      const seen = model.trace(...rows, off, changes);
      return { seen, logitsAt: (at) => logitsOf(seen, at) };
    },
    // What a beam search writes with it; `done` gets the sequence when the page has time for it.
    searchWith(numBeams, changes, rows, done) {
      const { logitsAfter, limits } = searched(model, live, rows, rows.at(-1).length, off, changes);
      inSlices(beamSearchSteps(logitsAfter, { ...limits, numBeams }), ({ best }) => done({ ...best, tokens: best.ids.map((id) => reader.token(id)) }));
    },
    // What each step of writing the last of these texts costs, in a model that has read nothing yet.
    cacheSteps: () => cacheSteps(liveModel(live, model.weights), inputs, off),
    nameOf: live.labels ? (id) => live.labels.names[id] : (id) => reader.token(id),
    logitsAt: (at) => logitsOf(traced(), at),
    logitsWithout: (layer, head, group, at) => logitsOf(model.trace(...inputs, [...silent, [layer, head, group]].map((each) => silentHead(live, each))), at),
  };
}

const SEARCH_STEPS = 10, SPARE_STEPS = 4; // of a continuation; by which a translation may be longer

// The tree of a beam search, when the page has time for it.
function searchBeams(model, live, inputs, following, silent, name, done) {
  const { logitsAfter, limits } = searched(model, live, inputs, following.length, silent, []);
  inSlices(searchTreeSteps(logitsAfter, name, limits), done);
}

// What a search needs: the logits after new tokens, and how many of them there may be. `written` is the
// number of tokens of the translation on the page, with its start or its end.
function searched(model, live, inputs, written, silent, changes) {
  const { input } = live.streams.at(-1), isTranslation = inputs.length > 1;
  const source = inputs.slice(0, -1), prompt = isTranslation ? input.before : inputs[0];
  const { end, forbidden } = input, most = model.config.context_length;
  const steps = isTranslation ? Math.min(written + 1 + SPARE_STEPS, most + 1 - prompt.length) : SEARCH_STEPS;
  const logitsAfter = (ids) => {
    const read = [...prompt, ...ids].slice(-tokensInWindow(prompt.length, ids.length, most));
    return model.trace(...source, read, silent, changes).logits(read.length - 1);
  };
  return { logitsAfter, limits: { steps, end, forbidden, prefersComplete: isTranslation } };
}

// Runs a generator, a step at a time, when the page has time for it; `done` gets what it returns.
function inSlices(steps, done) {
  later(() => {
    const { value, done: isOver } = steps.next();
    if (isOver) done(value);
    else inSlices(steps, done);
  });
}

// How many tokens the model reads after it has written some: when the context is full, it goes on with
// the newer half, as `read_again` in generation/sampling.py does.
function tokensInWindow(inPrompt, written, most) {
  let read = inPrompt;
  for (let n = 0; n < written; n += 1) read = read < most ? read + 1 : Math.max(1, Math.floor(most / 2));
  return read;
}

// A head as the model names it.
function silentHead(live, [layer, head, group]) {
  const { stack } = group === "source" ? live.streams[0] : live.streams.at(-1);
  return group === "cross" ? [stack, layer, head, "cross"] : [stack, layer, head];
}

function readerOf(live, { input }) {
  live.readers ??= {};
  return live.readers[input.tokenizer] ??= makeTokenizer(live.tokenizers[input.tokenizer]);
}

function liveStream(live, described, ids, seen, { name, memory, memory_score, wiring }) {
  const { layers } = seen.stacks[described.stack], reader = readerOf(live, described);
  return {
    name, memory, memory_score, wiring, ids, tokens: ids.map((id) => reader.token(id)), layers,
    causal: described.is_causal, bias: layers[0].bias ?? null,
    cross: layers[0].cross ? layers.map(({ cross }) => cross) : null, spelling: reader.spelling(ids),
  };
}

// A text that the model reads and does not translate.
function readAlone(model, live, text) {
  const [described] = live.streams, most = model.config.context_length;
  const reader = readerOf(live, described), all = readText(reader, described.input, text);
  const isBlank = !text || (!text.trim() && !readPart(reader, described.input, text).length); // a line break may be a token
  if (isBlank || !all.length) throw Error("type a word");
  const keepsEnd = described.is_causal && !live.labels; // a text to be continued
  const ids = keepsEnd ? all.slice(-most) : withoutMiddle(all, most, described.input);
  const left = all.length - ids.length, where = keepsEnd ? "beginning" : "middle";
  const notes = left ? [`the text is too long: the model reads ${number(ids.length)} tokens; ${number(left)} from the ${where} of the text are left out`] : [];
  return { inputs: [ids], following: ids.slice(1), notes };
}

// A sentence and its translation, token by token the likeliest.
function liveTranslation(model, live, text, silent) {
  const [source, target] = live.streams, line = text.split(/[\s\x1c-\x1f\x85]+/).filter(Boolean).join(" ");
  if (!line) throw Error("type a word");
  const read = readText(readerOf(live, source), source.input, line);
  const { ids, isComplete } = greedyTranslation(model, live, read, silent);
  const notes = ["the page writes the likeliest token at each step; the chapter on beam search shows what a search finds"];
  if (!isComplete) notes.push("the translation reached the maximum length and was cut off");
  const following = isComplete ? [...ids.slice(1), target.input.after[0]] : ids.slice(1);
  return { inputs: [read, ids.slice(0, model.config.context_length)], following, notes, text: line };
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
  if (predicts === "whole") return 0;
  if (predicts === "next") return ids.length - 1;
  const masked = mask === null ? -1 : ids.indexOf(mask);
  return masked >= 0 ? masked : Math.max(0, ids.length - after.length - 1);
}

// The likeliest tokens or labels with their probabilities: [[name, p], …]. Of several labels, each
// has a probability of its own.
function topOf(logits, count, name, several = false) {
  const total = several ? 0 : logSum(logits);
  return largestOf(logits, count).map((id) => {
    return [name(id), several ? 1 / (1 + Math.exp(-logits[id])) : Math.exp(logits[id] - total)];
  });
}

function livePrediction(logits, position, { ids, following, several }, predicts, live, name) {
  const { input } = live.streams.at(-1), id = predicts === "next" ? following[position] : ids[position];
  const isKnown = !live.labels && id !== undefined && id !== input.mask;
  return {
    position: predicts === "whole" ? null : position,
    options: topOf(logits, 10, name, several).map(([token, probability]) => ({ token, probability })),
    actual: isKnown ? name(id) : null,
    logprob: isKnown ? logits[id] - logSum(logits) : null,
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
  const directions = { data: Float32Array.from(found.flatMap((each) => Array.from(each))), shape: [2, width] };
  return { places, share: total ? held / total : 0, mean: { data: mean, shape: [width] }, directions };
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

const MOST_POSITIONS = 64; // of the vectors that are shown

// What is added at each position, and how alike these vectors are; null if nothing is.
function livePositions(model, stack, length) {
  const rows = model.positions(stack, Math.min(length, MOST_POSITIONS));
  if (!rows.some((row) => row.some(Boolean))) return null;
  const units = rows.map(unitOf);
  return { vectors: rows.map((row) => Array.from(row)), similar: units.map((one) => units.map((other) => dotOf(one, other))) };
}

function liveEmbeddings(model, { embedding, stack }, tokens, name) {
  const positions = livePositions(model, stack, tokens.length);
  const { data: table, shape: [size, width] } = model.weights.get(`${embedding}.weight`);
  const vector = (id) => table.subarray(id * width, (id + 1) * width);
  const lengths = model.lengths ??= Float64Array.from({ length: size }, (_, id) => Math.max(lengthOfVector(vector(id)), 1e-9));
  const ids = [...new Set(tokens)];
  const known = model.neighbours ??= new Map(); // they do not depend on the text
  const near = ids.map((id) => {
    if (known.has(id)) return known.get(id);
    const own = vector(id), similar = new Float64Array(size);
    for (let other = 0; other < size; other += 1) similar[other] = other === id ? -2 : dotOf(own, vector(other)) / (lengths[id] * lengths[other]);
    const found = largestOf(similar, Math.min(8, size - 1)).map((other) => ({ other, similar: similar[other] }));
    known.set(id, found);
    return found;
  });
  const shown = [...new Set([...ids, ...near.flatMap((each) => each.slice(0, 3).map(({ other }) => other))])];
  const inText = new Set(ids), unit = (id) => Float32Array.from(vector(id), (each) => each / lengths[id]);
  return {
    ids, positions, shown, names: shown.map(name), is_in_text: shown.map((id) => inText.has(id)),
    neighbours: near.map((each) => each.map(({ other, similar }) => [name(other), similar, other])),
    vector: unit, nameOf: name, ...mapOfVectors(shown.map(unit)),
  };
}

// One number of a query, key or value, as its layer computes it: a row of a matrix times a state.
function makeProjection(model, described, traced) {
  const parts = partsOf(model.weights, model.config), { num_heads: heads, num_kv_heads: groups, head_dim: d, pre_norm: isPre } = model.config;
  return (kind, layer, head, token, n) => {
    const { data, shape: [, width] } = traced().stacks[described.stack].hidden[layer];
    const name = `${described.stack}.${layer}.attention`, part = parts.linear(`${name}.${kind}`);
    let row = data.slice(token * width, (token + 1) * width);
    if (isPre) {
      const normed = new Float32Array(width);
      applyNorm(normed, row, 0, 1, parts.norm(`${name}_norm`));
      row = normed;
    }
    const at = (kind === "query" ? head : Math.floor((head * groups) / heads)) * d + n;
    return {
      row: part.weight.subarray(at * width, (at + 1) * width), state: row, bias: part.bias?.[at] ?? 0, isStateNormed: isPre,
      isNormed: parts.norm(`${name}.${kind}_norm`) !== null, isTurned: kind !== "value" && model.config.positions === "rotary",
    };
  };
}

// The log-probabilities of all tokens or labels; of several labels, those of yes, then those of no.
function logShares(logits, several) {
  const total = logSum(logits), no = (x) => -Math.log1p(Math.exp(x)), yes = (x) => x + no(x);
  return several ? [...Array.from(logits, yes), ...Array.from(logits, no)] : Array.from(logits, (each) => each - total);
}

// How a prediction changes without each head: a run of the model for each, one at a time, as long as
// somebody wants to know.
function effectsOfHeads(scene, done, { at = scene.focus, group = undefined, layers = scene.main.layers, isWanted = () => true } = {}) {
  const logits = scene.logitsAt(at), whole = logShares(logits, scene.several), best = likeliest(logits);
  const heads = layers[0].query.shape[0];
  const divergence = layers.map(() => new Array(heads).fill(0));
  const change = divergence.map((row) => [...row]);
  let missing = divergence.length * heads;
  divergence.forEach((row, layer) => row.forEach((_, head) => later(() => {
    if (!isWanted()) return;
    const without = logShares(scene.logitsWithout(layer, head, group, at), scene.several);
    let sum = 0;
    whole.forEach((each, n) => { if (each > -700) sum += Math.exp(each) * (each - without[n]); });
    divergence[layer][head] = Math.max(0, sum);
    change[layer][head] = without[best] - whole[best];
    missing -= 1;
    if (!missing) done({ divergence, change });
  })));
}
