// A Transformer block: attention, cross-attention if it has a memory, and a feed-forward layer, each
// added to its input, with a norm before it or after it.

function makeBlock(name, parts, config, places, isCausal, scratch) {
  const own = makeHeads(`${name}.attention`, parts, config, { ...places, isCausal });
  const nothing = { rotation: null, distances: null, isScaled: places.isScaled, isCausal: false };
  const hasCross = parts.linear(`${name}.cross_attention.query`) !== null;
  const cross = hasCross ? makeHeads(`${name}.cross_attention`, parts, config, nothing) : null;
  const feed = makeFeedForward(`${name}.feedforward`, parts, config, scratch);
  const norms = ["attention", "cross_attention", "feedforward"].map((each) => {
    return parts.norm(`${name}.${each}_norm`);
  });
  const D = config.d_model;

  // What a part of the block reads.
  function inputOf(x, norm, first, last) {
    if (!config.pre_norm) return x;
    const normed = scratch("normed", last * D);
    applyNorm(normed, x, first, last, norm);
    return normed;
  }
  // y = x + change, or the norm of that.
  function addTo(y, x, change, norm, first, last) {
    for (let n = first * D; n < last * D; n += 1) y[n] = x[n] + change[n];
    if (!config.pre_norm) applyNorm(y, y, first, last, norm);
  }

  // The states y of rows from `keep` on, from states x. The vectors of the first `known` rows are in
  // `past`; heads in `off` contribute nothing.
  function run(y, x, { length, known, keep, past, off, memory }) {
    const heads = scratch("heads", length * own.width), added = {};
    const changeOf = (kind) => (added[kind] = rowsAfter(keep ? past?.added[kind] : undefined, keep, D, length)).data;
    const silent = (kind) => off.filter((each) => each[3] === kind).map((each) => each[2]);
    let input = inputOf(x, norms[0], known, length);
    const layer = own.project(input, input, known, length, known, length, past);
    own.run(heads, layer, keep, length, length, silent(undefined));
    let change = changeOf("attention");
    own.mix(change, heads, keep, length);
    addTo(y, x, change, norms[0], keep, length);
    if (cross !== null) {
      input = inputOf(y, norms[1], keep, length);
      const numKeys = memory.ids.length, isKnown = past !== undefined; // the memory is the same
      const read = isKnown ? null : memory.output(), first = isKnown ? numKeys : 0;
      const vectors = cross.project(input, read, keep, length, first, numKeys, past?.cross);
      layer.cross = { numKeys, ...vectors };
      cross.run(heads, layer.cross, keep, length, numKeys, silent("cross"));
      change = changeOf("cross_attention");
      cross.mix(change, heads, keep, length);
      addTo(y, y, change, norms[1], keep, length);
    }
    input = inputOf(y, norms[2], keep, length);
    change = changeOf("feedforward");
    feed(change, input, keep, length);
    addTo(y, y, change, norms[2], keep, length);
    return Object.assign(layer, { added });
  }

  function seen(layer, length) {
    const found = own.seen(layer, length, length);
    // What each part added to its input: rows, by the name of the part.
    found.added = Object.fromEntries(Object.entries(layer.added).map(([kind, { data }]) => [kind, data.subarray(0, length * D)]));
    if (cross !== null) found.cross = cross.seen(layer.cross, length, layer.cross.numKeys);
    return found;
  }
  return { run, seen };
}

// The projections of an attention layer and its heads.
function makeHeads(name, parts, config, { rotation, distances, isScaled, isCausal }) {
  const { num_heads: H, num_kv_heads: G, head_dim: d } = config;
  const query = parts.linear(`${name}.query`), key = parts.linear(`${name}.key`);
  const value = parts.linear(`${name}.value`), output = parts.linear(`${name}.output`);
  const queryNorm = parts.norm(`${name}.query_norm`), keyNorm = parts.norm(`${name}.key_norm`);
  const attention = makeAttention({ numHeads: H, numGroups: G, d, isCausal, isScaled, distances });

  function projected(x, part, norm, heads, old, first, last, isRotated) {
    const rows = rowsAfter(old, first, part.width, last);
    if (first === last) return rows;
    applyLinear(rows.data, x, first, last, part);
    if (norm !== null) applyNorm(rows.data, rows.data, first * heads, last * heads, norm);
    if (isRotated && rotation !== null) rotateHeads(rows.data, first, last, heads, d, rotation());
    return rows;
  }
  return {
    width: H * d,
    // Queries from the rows of x, keys and values from those of `read`; earlier rows are in `past`.
    project(x, read, first, last, firstKey, lastKey, past) {
      return {
        query: projected(x, query, queryNorm, H, past?.query, first, last, true),
        key: projected(read, key, keyNorm, G, past?.key, firstKey, lastKey, true),
        value: projected(read, value, null, G, past?.value, firstKey, lastKey, false),
      };
    },
    run(heads, layer, first, last, numKeys, silent) {
      const [q, k, v] = [layer.query.data, layer.key.data, layer.value.data];
      attention.run(heads, q, k, v, first, last, numKeys, silent);
    },
    mix: (out, heads, first, last) => applyLinear(out, heads, first, last, output),
    seen(layer, numQueries, numKeys) {
      const { query: q, key: k, value: v } = layer;
      const found = {
        causal: isCausal,
        get query() { return headsFirst(q.data, numQueries, H, d); },
        get key() { return headsFirst(k.data, numKeys, G, d); },
        get value() { return headsFirst(v.data, numKeys, G, d); },
        weights: (head) => attention.weights(head, q.data, k.data, numQueries, numKeys),
      };
      if (distances === null) return found;
      return Object.defineProperty(found, "bias", {
        enumerable: true,
        get: () => attention.bias(numQueries, numKeys),
      });
    },
  };
}

function makeFeedForward(name, parts, config, scratch) {
  const gate = parts.linear(`${name}.gate`), up = parts.linear(`${name}.up`);
  const down = parts.linear(`${name}.down`), { width } = up;
  return (out, x, first, last) => {
    const hidden = scratch("hidden", last * width);
    applyLinear(hidden, x, first, last, up);
    if (gate === null) activate(hidden, config.activation, first * width, last * width);
    else {
      const gates = scratch("gates", last * width);
      applyLinear(gates, x, first, last, gate);
      activate(gates, config.activation, first * width, last * width);
      for (let n = first * width; n < last * width; n += 1) hidden[n] *= gates[n];
    }
    applyLinear(out, hidden, first, last, down);
  };
}
