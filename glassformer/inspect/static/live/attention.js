// softmax(query · keyᵀ / √d + bias) · value, head by head. Queries are rows of H heads of d numbers,
// keys and values rows of G heads; H / G consecutive heads of queries share one of keys and values.

// What one query attends to: the shares of its first `count` keys, in `shares`. `factor` is 1 / √d.
function attentionRow(shares, query, at, key, keyAt, stride, count, d, factor, bias, biasAt) {
  multiplications.scores += count * d;
  dotsOfRow(shares, query, at, key, keyAt, stride, count, d, factor);
  if (bias !== null) for (let s = 0; s < count; s += 1) shares[s] += bias[biasAt + s];
  softmaxOf(shares, 0, count);
}

// factor · (query · key) for each of `count` keys.
function dotsOfRow(dots, query, at, key, keyAt, stride, count, d, factor) {
  let s = 0;
  for (; s + 3 < count; s += 4) { // four sums that do not wait for each other
    const a = keyAt + s * stride, b = a + stride, c = b + stride, e = c + stride;
    let sa = 0, sb = 0, sc = 0, se = 0;
    for (let k = 0; k < d; k += 1) {
      const q = query[at + k];
      sa += q * key[a + k]; sb += q * key[b + k]; sc += q * key[c + k]; se += q * key[e + k];
    }
    dots[s] = sa * factor; dots[s + 1] = sb * factor;
    dots[s + 2] = sc * factor; dots[s + 3] = se * factor;
  }
  for (; s < count; s += 1) dots[s] = dotAt(query, at, key, keyAt + s * stride, d) * factor;
}

// The mean of the values by these shares, into `out` from place `at` on.
function meanOfValues(out, at, shares, value, valueAt, stride, count, d, sums) {
  multiplications.values += count * d;
  sums.fill(0, 0, d);
  let s = 0;
  for (; s + 3 < count; s += 4) {
    const a = valueAt + s * stride, b = a + stride, c = b + stride, e = c + stride;
    const wa = shares[s], wb = shares[s + 1], wc = shares[s + 2], we = shares[s + 3];
    for (let k = 0; k < d; k += 1) {
      sums[k] += wa * value[a + k] + wb * value[b + k] + wc * value[c + k] + we * value[e + k];
    }
  }
  for (; s < count; s += 1) {
    const from = valueAt + s * stride, share = shares[s];
    for (let k = 0; k < d; k += 1) sums[k] += share * value[from + k];
  }
  for (let k = 0; k < d; k += 1) out[at + k] = sums[k];
}

// An attention layer on its vectors: `query` (T, H · d), `key` and `value` (S, G · d), and a table of
// biases by distance, or null. The last query is at the last key if it is causal.
function makeAttention({ numHeads, numGroups, d, isCausal, isScaled, distances }) {
  const perGroup = numHeads / numGroups, queryWidth = numHeads * d, keyWidth = numGroups * d;
  const sums = new Float64Array(d), factor = isScaled ? 1 / Math.sqrt(d) : 1;
  let shares = new Float64Array(64);

  // The biases of head h for all distances begin here; that of key 0 for query t.
  const biasOf = (head, t) => {
    const limit = (distances.shape[1] - 1) / 2;
    return head * distances.shape[1] + limit - t;
  };
  function rowOf(head, t, query, key, numKeys) {
    const count = isCausal ? t + 1 : numKeys;
    if (shares.length < count) shares = new Float64Array(2 * count);
    const keyAt = Math.floor(head / perGroup) * d, at = t * queryWidth + head * d;
    const bias = distances === null ? null : distances.data;
    const biasAt = bias === null ? 0 : biasOf(head, t);
    attentionRow(shares, query, at, key, keyAt, keyWidth, count, d, factor, bias, biasAt);
    return count;
  }
  return {
    // The outputs of all heads for the queries from `first` to `last`: (T, H · d).
    run(out, query, key, value, first, last, numKeys, silent) {
      for (let head = 0; head < numHeads; head += 1) {
        const valueAt = Math.floor(head / perGroup) * d;
        for (let t = first; t < last; t += 1) {
          const at = t * queryWidth + head * d;
          if (silent.includes(head)) {
            out.fill(0, at, at + d);
            continue;
          }
          const count = rowOf(head, t, query, key, numKeys);
          meanOfValues(out, at, shares, value, valueAt, keyWidth, count, d, sums);
        }
      }
    },
    // How much each query attends to each key: (T, S), rows sum to one.
    weights(head, query, key, numQueries, numKeys) {
      const all = new Float32Array(numQueries * numKeys);
      for (let t = 0; t < numQueries; t += 1) {
        const count = rowOf(head, t, query, key, numKeys);
        for (let s = 0; s < count; s += 1) all[t * numKeys + s] = shares[s];
      }
      return all;
    },
    // The biases of all heads: (H, T, S).
    bias(numQueries, numKeys) {
      const all = new Float32Array(numHeads * numQueries * numKeys);
      let n = 0;
      for (let head = 0; head < numHeads; head += 1) {
        for (let t = 0; t < numQueries; t += 1) {
          for (let s = 0; s < numKeys; s += 1) all[n++] = distances.data[biasOf(head, t) + s];
        }
      }
      return { data: all, shape: [numHeads, numQueries, numKeys] };
    },
  };
}

// Rotates the numbers k and k + d/2 of every head by the angle of its row, in place.
function rotateHeads(rows, first, last, numHeads, d, { sin, cos }) {
  const half = d / 2;
  for (let row = first; row < last; row += 1) {
    for (let head = 0; head < numHeads; head += 1) {
      const at = (row * numHeads + head) * d;
      for (let k = 0; k < half; k += 1) {
        const s = sin[row * half + k], c = cos[row * half + k];
        const one = rows[at + k], other = rows[at + half + k];
        rows[at + k] = one * c - other * s;
        rows[at + half + k] = other * c + one * s;
      }
    }
  }
}

// Rows of heads, (T, H · d), with the heads first: (H, T, d).
function headsFirst(rows, length, numHeads, d) {
  const data = new Float32Array(length * numHeads * d);
  for (let head = 0, n = 0; head < numHeads; head += 1) {
    for (let t = 0; t < length; t += 1, n += d) {
      const at = (t * numHeads + head) * d;
      data.set(rows.subarray(at, at + d), n);
    }
  }
  return { data, shape: [numHeads, length, d] };
}
