// A Transformer in the page: the blocks of nn/blocks.py in the order of models/stack.py, on weights
// that the page carries. It knows no kind of model: GPT, BERT and the translator differ in their
// streams and their read-out, which are data.
//
//   const model = await makeLive(packed);               // inspect/live.py
//   const seen = model.trace(ids, [["blocks", 2, 0]]);  // without head 0 of layer 2
//   seen.stacks.blocks.layers[1].weights(0)             // (T · S)
//   seen.logits(seen.length - 1)                        // (V)
//
// A translator takes trace(source, target, silent). To silence a head of cross-attention, add
// "cross" as the fourth item. What a call has in common with the one before is not computed again:
// the beginning of a text, the layers below a head that was switched off, the source of a
// translation. So typing at the end of a text costs one token.
//
// After the heads, a call takes changes of the model, names of these:
//
//   unscaled      scores are not divided by √d
//   unpositioned  no positions: nothing is added to embeddings or scores, nothing is rotated
//   unmasked      tokens attend to later ones, too
//   uncached      what the last stream computed before is computed again

async function makeLive(packed) {
  return liveModel(packed, await unpackWeights(packed.weights));
}

function liveModel(packed, weights) {
  const { config } = packed;
  const parts = partsOf(weights, config);
  const streamsWith = (changes) => packed.streams.map((each) => makeStream(each, parts, weights, config, changes));
  const streams = streamsWith([]), variants = new Map(); // with changes, by their names
  const steps = packed.read_out.map(([kind, name]) => [kind, parts[kind]?.(name)]);
  const last = streams.at(-1);

  // The streams with these changes, and the states of the last call of these, by stack.
  function variantOf(changes) {
    const parts = changes.filter((each) => each !== "uncached").sort(), name = parts.join();
    if (!variants.has(name)) variants.set(name, { streams: parts.length ? streamsWith(parts) : streams, before: {} });
    return variants.get(name);
  }

  function readOut(state) {
    let x = Float32Array.from(state);
    for (const [kind, part] of steps) {
      const y = new Float32Array(part?.width ?? x.length);
      if (kind === "linear") applyLinear(y, x, 0, 1, part);
      else if (kind === "norm") applyNorm(y, x, 0, 1, part);
      else y.set(x.map(ACTIVATIONS[kind]));
      x = y;
    }
    return x;
  }

  function trace(...inputs) {
    const silent = inputs[streams.length] ?? [], changes = inputs[streams.length + 1] ?? [];
    checkSilent(silent, streams);
    const states = {}, counts = {}, variant = variantOf(changes);
    variant.streams.forEach((stream, n) => {
      const { stack } = stream, memory = stream.memory === null ? null : states[stream.memory];
      const own = silent.filter(([other]) => other === stack), start = { ...multiplications };
      const isForgotten = stack === last.stack && changes.includes("uncached");
      states[stack] = stream.run(inputs[n], own, memory, isForgotten ? undefined : variant.before[stack]);
      counts[stack] = multipliedSince(start);
    });
    variant.before = states;
    const ids = inputs[streams.length - 1], length = packed.pooling ? 1 : ids.length; // predictions
    const final = states[last.stack].hidden.at(-1);
    return {
      ids: inputs.slice(0, streams.length),
      length,
      silent,
      counts, // of multiplications, by stack
      stacks: Object.fromEntries(variant.streams.map((each) => [each.stack, each.seen(states[each.stack])])),
      readOut,
      // How much each token adds to each logit, [label][token], if the read-out of their sum is one
      // matrix.
      contributions() {
        const shares = poolingShares(ids, packed.pooling, weights), [[, head]] = steps;
        const added = new Float32Array(ids.length * head.width);
        applyLinear(added, states[last.stack].output(), 0, ids.length, { ...head, bias: null });
        return Array.from({ length: head.width }, (_, label) => shares.map((share, t) => share * added[t * head.width + label]));
      },
      logits(position) {
        if (!(position >= 0 && position < length)) throw Error(`there is no position ${position}`);
        if (!packed.pooling) return readOut(final.row(position));
        return readOut(pooledVector(states[last.stack].output(), ids, packed.pooling, weights));
      },
    };
  }

  // What is added to the embeddings at the first positions of a stack: rows.
  function positions(stack, length) {
    return streams.find((each) => each.stack === stack).positions(length);
  }

  return { trace, readOut, positions, config, check: packed.check, dtype: packed.weights.dtype, weights };
}

const multipliedSince = (start) => Object.fromEntries(Object.keys(start).map((name) => [name, multiplications[name] - start[name]]));

// One vector from those of a text, (T, D): the mean, the largest numbers, the first or the last
// vector, or a sum in which rare tokens count more (nn/pooling.py).
function pooledVector(rows, ids, pooling, weights) {
  const length = ids.length, width = rows.length / length;
  const row = (t) => rows.subarray(t * width, (t + 1) * width);
  if (pooling === "first" || pooling === "last") return row(pooling === "first" ? 0 : length - 1);
  const column = (k) => Array.from({ length }, (_, t) => rows[t * width + k]);
  if (pooling === "max") return Float32Array.from({ length: width }, (_, k) => Math.max(...column(k)));
  const shares = poolingShares(ids, pooling, weights);
  return Float32Array.from({ length: width }, (_, k) => column(k).reduce((sum, x, t) => sum + shares[t] * x, 0));
}

// How much each token counts in a sum of all.
function poolingShares(ids, pooling, weights) {
  const idf = weights.get(`${pooling}.idf`)?.data; // not for "mean", and not for a time series
  const counts = Array.from(ids, (id) => (idf ? idf[id] : 1));
  const norm = idf ? Math.max(1, Math.hypot(...counts)) : ids.length;
  return counts.map((count) => count / norm);
}

function checkSilent(silent, streams) {
  for (const [stack, layer, head, kind] of silent) {
    const found = streams.find((each) => each.stack === stack);
    const isKnown = found && layer in found.blocks && head >= 0 && head < found.numHeads;
    const hasKind = kind === undefined || (kind === "cross" && found?.memory !== null);
    if (!isKnown || !hasKind) throw Error(`there is no head ${[stack, layer, head, kind].join(" ")}`);
  }
}

// --- the parts of a model, by name ---

function partsOf(weights, config) {
  const tensor = (name) => weights.get(name) ?? null;
  const data = (name) => tensor(name)?.data ?? null;
  const linearPart = (name) => {
    const weight = tensor(`${name}.weight`);
    if (weight === null) return null;
    const [width, depth] = weight.shape;
    return { weight: weight.data, bias: data(`${name}.bias`), width, depth };
  };
  const normPart = (name) => { // null: the model has no norm there
    const weight = name === null ? null : data(`${name}.weight`);
    if (weight === null) return null;
    const apply = config.norm === "rms" ? rmsNorm : layerNorm;
    return { weight, bias: data(`${name}.bias`), eps: config.norm_eps, width: weight.length, apply };
  };
  return { linear: linearPart, norm: normPart };
}

const applyLinear = (out, x, first, last, { weight, bias, width, depth }) => {
  linear(out, x, first, last, weight, bias, width, depth);
};
const applyNorm = (out, x, first, last, norm) => norm.apply(out, x, first, last, norm);

// Rows of numbers to which more can be added; those who read the first rows are not disturbed.
class Rows {
  constructor(width, capacity) {
    Object.assign(this, { width, capacity, length: 0, data: new Float32Array(width * capacity) });
  }
  row(n) { return this.data.subarray(n * this.width, (n + 1) * this.width); }
  // `length` rows of which the first `keep` are known: these rows if none has to be overwritten.
  extended(keep, length) {
    if (keep === this.length && length <= this.capacity) {
      this.length = length;
      return this;
    }
    const rows = Rows.of(this.width, length);
    rows.data.set(this.data.subarray(0, keep * this.width));
    return rows;
  }
  static of(width, length) {
    const rows = new Rows(width, length + 32);
    rows.length = length;
    return rows;
  }
}

const rowsAfter = (old, keep, width, length) => old?.extended(keep, length) ?? Rows.of(width, length);

// Memory for results that nobody keeps, by name.
function makeScratch() {
  const arrays = {};
  return (name, size) => {
    if (!(arrays[name]?.length >= size)) arrays[name] = new Float32Array(Math.ceil(size * 1.5));
    return arrays[name];
  };
}

// --- a stack of blocks and the embedding before it ---

function makeStream(described, parts, weights, config, changes) {
  const { stack, memory } = described, isCausal = described.is_causal && !changes.includes("unmasked");
  const D = config.d_model, numLayers = described.num_layers;
  const scratch = makeScratch();
  const isPlaced = !changes.includes("unpositioned"), isScaled = !changes.includes("unscaled");
  const around = { ...(isPlaced ? makePlaces(described, weights, config) : NO_PLACES), isScaled };
  const blocks = Array.from({ length: numLayers }, (_, n) => {
    return makeBlock(`${stack}.${n}`, parts, config, around, isCausal, scratch);
  });
  const embed = makeEmbedding(described, parts, weights, config, around, scratch);
  const normOut = parts.norm(described.final_norm);

  function run(ids, silent, memoryState, old) {
    checkIds(ids, embed.size, config.context_length);
    const length = ids.length;
    let keep = old === undefined || old.memory !== memoryState ? 0 : sharedPrefix(ids, old.ids);
    if (!isCausal && keep < Math.max(length, old?.ids.length ?? 0)) keep = 0; // all see all
    const state = { ids: Array.from(ids), memory: memoryState, hidden: [], layers: [], silent: [] };
    state.hidden[0] = rowsAfter(keep ? old.hidden[0] : undefined, keep, D, length);
    embed.run(state.hidden[0].data, ids, keep);
    let isSame = keep === length && length === old?.ids.length;
    blocks.forEach((block, n) => {
      const off = silent.filter((each) => each[1] === n);
      state.silent[n] = JSON.stringify(off.map((each) => each.slice(2)).sort());
      const known = keep;
      if (keep && state.silent[n] !== old.silent[n]) [keep, isSame] = [0, false];
      const past = known ? old.layers[n] : undefined;
      state.hidden[n + 1] = rowsAfter(keep ? old.hidden[n + 1] : undefined, keep, D, length);
      const [x, y] = [state.hidden[n].data, state.hidden[n + 1].data];
      state.layers[n] = block.run(y, x, { length, known, keep, past, off, memory: memoryState });
    });
    if (isSame) return old; // so that those who attend to it know that nothing has changed
    let output = null;
    state.output = () => (output ??= outputOf(state));
    return state;
  }

  // What others attend to: (T, D).
  function outputOf({ hidden, ids }) {
    const { data } = hidden.at(-1), output = data.slice(0, ids.length * D);
    if (normOut !== null) applyNorm(output, data, 0, ids.length, normOut);
    return output;
  }

  // What the page sees of a state; heads come first here, and are put in order when asked for.
  function seen(state) {
    const { length } = state.ids;
    return {
      ids: state.ids,
      hidden: state.hidden.map(({ data }) => ({ data: data.subarray(0, length * D), shape: [length, D] })),
      layers: state.layers.map((layer, n) => blocks[n].seen(layer, length)),
    };
  }
  function positions(length) {
    const added = new Float32Array(length * D);
    around.add(added, 0, length);
    return Array.from({ length }, (_, row) => added.subarray(row * D, (row + 1) * D));
  }
  return { stack, memory, blocks, numHeads: config.num_heads, run, seen, positions };
}

function checkIds(ids, size, most) {
  if (!ids?.length) throw Error("there are no tokens");
  if (ids.length > most) {
    throw Error(`${ids.length} tokens do not fit in the model's context of ${most}`);
  }
  const wrong = ids.find((id) => !(Number.isInteger(id) && id >= 0 && id < size));
  if (wrong !== undefined) throw Error(`there is no token ${wrong}`);
}

function sharedPrefix(one, other) {
  let n = 0;
  while (n < one.length && n < other.length && one[n] === other[n]) n += 1;
  return n;
}

const NO_PLACES = { rotation: null, distances: null, add() {} };

// Positions: what is added to embeddings, how queries and keys are rotated, biases by distance.
function makePlaces({ positions }, weights, config) {
  const frequencies = weights.get(`${positions}.frequencies`)?.data;
  let turned = null;
  const waves = () => (turned ??= angles(frequencies, 0, config.context_length));
  const table = weights.get(`${positions}.table.weight`)?.data;
  const D = config.d_model;
  return {
    rotation: config.positions === "rotary" ? waves : null,
    distances: weights.get(`${positions}.scores`) ?? null,
    add(x, first, last) {
      if (table) for (let n = first * D; n < last * D; n += 1) x[n] += table[n];
      if (config.positions !== "sinusoidal") return;
      const { sin, cos } = waves(), count = frequencies.length;
      for (let row = first; row < last; row += 1) {
        for (let k = 0; k < D; k += 1) x[row * D + k] += (k % 2 ? cos : sin)[row * count + (k >> 1)];
      }
    },
  };
}

function makeEmbedding(described, parts, weights, config, places, scratch) {
  const { data, shape } = weights.get(`${described.embedding}.weight`);
  const [size, width] = shape, D = config.d_model;
  const widen = described.widen === null ? null : parts.linear(described.widen);
  const segment = described.segments && weights.get(`${described.segments}.weight`).data;
  const norm = parts.norm(described.embedding_norm);
  const factor = described.is_scaled ? Math.fround(Math.sqrt(D)) : 1;
  return {
    size,
    // The embeddings of the tokens from `first` on, with their positions.
    run(out, ids, first) {
      const looked = widen === null ? out : scratch("looked", ids.length * width);
      for (let t = first; t < ids.length; t += 1) {
        for (let k = 0; k < width; k += 1) looked[t * width + k] = factor * data[ids[t] * width + k];
      }
      if (widen !== null) applyLinear(out, looked, first, ids.length, widen);
      if (segment) for (let n = first * D; n < ids.length * D; n += 1) out[n] += segment[n % D];
      places.add(out, first, ids.length);
      if (norm !== null) applyNorm(out, out, first, ids.length, norm);
    },
  };
}
