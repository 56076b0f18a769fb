// A GPT that learns in the page: the forward pass, the loss, its gradient, and AdamW.
//
//     x      = embedding[ids] + positions          (N, D): N rows, one for each token of a batch
//     x      = x + attention(norm(x))              for every block
//     x      = x + feedforward(norm(x))
//     logits = norm(x) · embeddingᵀ                (N, V)
//     loss   = mean of -log softmax(logits)[next]
//
// The backward pass takes the same steps in reverse: where a step computes y from x, `dy` says how the
// loss changes with each number of y, and the step's backward function adds that up to dx. Everything
// is a double, so that a gradient can be compared with what the loss does when one number is nudged.
//
//   const model = makeLearner({ num_layers: 3, num_heads: 3, d_model: 48, head_dim: 48, … });
//   const loss = model.forward(ids, next, length);   // ids and next: sequences of `length`, one after the other
//   model.backward();                                // fills model.gradient
//   model.update(0.003);                             // AdamW

const ADAMW = { beta1: 0.9, beta2: 0.99, eps: 1e-8, decay: 0.01 };

// What the reader can take away from the model.
const WHOLE = { mask: true, positions: true, scale: true, residuals: true };

// Names and shapes of all parameters, as a model folder has them.
function parametersOf({ num_layers, num_heads, d_model: D, head_dim, d_feedforward: F, vocab_size, context_length }) {
  const heads = num_heads * head_dim, list = [["embedding.weight", [vocab_size, D]], ["positions.table.weight", [context_length, D]]];
  const linearLayer = (name, width, depth) => list.push([`${name}.weight`, [width, depth]], [`${name}.bias`, [width]]);
  const normLayer = (name) => list.push([`${name}.weight`, [D]], [`${name}.bias`, [D]]);
  for (let n = 0; n < num_layers; n += 1) {
    const block = `blocks.${n}`;
    normLayer(`${block}.attention_norm`);
    for (const each of ["query", "key", "value"]) linearLayer(`${block}.attention.${each}`, heads, D);
    linearLayer(`${block}.attention.output`, D, heads);
    normLayer(`${block}.feedforward_norm`);
    linearLayer(`${block}.feedforward.up`, F, D);
    linearLayer(`${block}.feedforward.down`, D, F);
  }
  normLayer("final_norm");
  return list;
}

// The number of parameters; without a list of them, which may be long.
function sizeOf({ num_layers, num_heads, head_dim, d_model: D, d_feedforward: F, vocab_size, context_length }) {
  const width = num_heads * head_dim, block = 4 * width * D + 3 * width + 2 * F * D + F + 6 * D;
  return (vocab_size + context_length + 2) * D + num_layers * block;
}

const normal = (random) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

function makeLearner(shape, seed = 0) {
  const { num_layers: L, num_heads: H, d_model: D, head_dim: d, d_feedforward: F, vocab_size: V, context_length: T, norm_eps: eps } = shape;
  const list = parametersOf(shape), width = H * d, size = sizeOf(shape);
  const values = new Float64Array(size), gradient = new Float64Array(size);
  const mean = new Float64Array(size), square = new Float64Array(size); // AdamW's m and v
  const places = new Map();
  let end = 0;
  for (const [name, dims] of list) {
    const count = dims.reduce((a, b) => a * b);
    places.set(name, { start: end, count, shape: dims });
    end += count;
  }
  const partOf = (array, name) => array.subarray(places.get(name).start, places.get(name).start + places.get(name).count);
  const value = new Map(list.map(([name]) => [name, partOf(values, name)]));
  const change = new Map(list.map(([name]) => [name, partOf(gradient, name)]));

  // As GPT-2's, with more spread for narrow layers: smaller where 2 · L results are summed in the residual stream.
  function initialize() {
    const random = makeRandom(seed);
    for (const [name, dims] of list) {
      const isSummed = /(attention\.output|feedforward\.down)\.weight$/.test(name);
      const deviation = dims.length === 1 ? 0 : 0.08 / (isSummed ? Math.sqrt(2 * L) : 1);
      const middle = name.endsWith("norm.weight") ? 1 : 0, part = value.get(name);
      for (let n = 0; n < part.length; n += 1) part[n] = middle + (deviation && deviation * normal(random));
    }
    for (const array of [gradient, mean, square]) array.fill(0);
    model.steps = 0;
  }

  // --- memory for what a pass computes, by name; it grows with the largest batch ---

  const arrays = {};
  const memory = (name, count) => (arrays[name]?.length >= count ? arrays[name] : (arrays[name] = new Float64Array(count)));
  const zeros = (name, count) => memory(name, count).fill(0, 0, count);

  // --- the steps, each with its way back ---

  // y = x · Wᵀ + b
  function linearStep(y, x, rows, name, columns, depth) {
    linear(y, x, 0, rows, value.get(`${name}.weight`), value.get(`${name}.bias`) ?? null, columns, depth);
  }

  // dx = dy · W,  dW = dyᵀ · x,  db += Σ dy
  function linearBack(dx, dy, x, rows, name, columns, depth) {
    const weight = `${name}.weight`, bias = change.get(`${name}.bias`);
    linear(dx, dy, 0, rows, transposed("weights", value.get(weight), columns, depth), null, depth, columns);
    linear(change.get(weight), transposed("deltas", dy, rows, columns), 0, columns, transposed("inputs", x, rows, depth), null, depth, rows);
    if (bias) for (let n = 0, row = 0; row < rows; row += 1) for (let column = 0; column < columns; column += 1) bias[column] += dy[n++];
    if (model.watched?.name === weight) {
      const [row, column] = [Math.floor(model.watched.index / depth), model.watched.index % depth];
      for (let n = 0; n < rows; n += 1) model.terms.push({ at: n, input: x[n * depth + column], delta: dy[n * columns + row] });
    }
  }

  function transposed(name, x, rows, columns) {
    const turned = memory(name, rows * columns);
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1) turned[column * rows + row] = x[row * columns + column];
    }
    return turned;
  }

  function normStep(y, x, rows, name) {
    layerNorm(y, x, 0, rows, { weight: value.get(`${name}.weight`), bias: value.get(`${name}.bias`), eps, width: D });
  }

  // With x̂ = (x - mean) / σ:  dx += (dx̂ - mean(dx̂) - x̂ · mean(dx̂ · x̂)) / σ,  dw += Σ dy · x̂,  db += Σ dy
  function normBack(dx, dy, x, rows, name) {
    const weight = value.get(`${name}.weight`), dw = change.get(`${name}.weight`), db = change.get(`${name}.bias`);
    for (let row = 0; row < rows; row += 1) {
      const start = row * D;
      let middle = 0, variance = 0, sum = 0, along = 0;
      for (let k = 0; k < D; k += 1) middle += x[start + k] / D;
      for (let k = 0; k < D; k += 1) variance += (x[start + k] - middle) ** 2 / D;
      const scale = 1 / Math.sqrt(variance + eps);
      for (let k = 0; k < D; k += 1) {
        const standard = (x[start + k] - middle) * scale, delta = dy[start + k];
        dw[k] += delta * standard;
        db[k] += delta;
        sum += delta * weight[k];
        along += delta * weight[k] * standard;
      }
      for (let k = 0; k < D; k += 1) {
        const standard = (x[start + k] - middle) * scale;
        dx[start + k] += (dy[start + k] * weight[k] - sum / D - (standard * along) / D) * scale;
      }
    }
  }

  const C = Math.sqrt(2 / Math.PI);

  // y = gelu(x); keeps the hyperbolic tangents for the way back.
  function geluStep(y, x, tangents, count) {
    for (let n = 0; n < count; n += 1) {
      const u = x[n], t = Math.tanh(C * (u + 0.044715 * u * u * u));
      tangents[n] = t;
      y[n] = 0.5 * u * (1 + t);
    }
  }

  function geluBack(dy, x, tangents, count) { // in place
    for (let n = 0; n < count; n += 1) {
      const u = x[n], t = tangents[n];
      dy[n] *= 0.5 * (1 + t) + 0.5 * u * (1 - t * t) * C * (1 + 3 * 0.044715 * u * u);
    }
  }

  // softmax(q · kᵀ / √d) · v for every head of every sequence; `shares` are (sequence, head, t, s).
  function attentionStep(out, shares, q, k, v, rows, length) {
    const sums = memory("sums", d), factor = factorOf();
    for (let first = 0; first < rows; first += length) {
      for (let head = 0; head < H; head += 1) {
        const own = first * width + head * d;
        for (let t = 0; t < length; t += 1) {
          const count = model.parts.mask ? t + 1 : length, at = own + t * width;
          const place = ((first / length) * H + head) * length * length + t * length, row = shares.subarray(place, place + length);
          attentionRow(row, q, at, k, own, width, count, d, factor, null, 0);
          row.fill(0, count);
          meanOfValues(out, at, row, v, own, width, count, d, sums);
        }
      }
    }
  }

  // dv = pᵀ · dy,  dp = dy · vᵀ,  ds = p · (dp - Σ p · dp) / √d,  dq = ds · k,  dk = dsᵀ · q
  function attentionBack(dq, dk, dv, dy, shares, q, k, v, rows, length) {
    const sums = memory("sums", d), ds = memory("ds", length), factor = factorOf();
    const [columns, dsColumns] = ["columns", "dsColumns"].map((name) => memory(name, length * length)); // pᵀ and dsᵀ
    for (let first = 0; first < rows; first += length) {
      for (let head = 0; head < H; head += 1) {
        const own = first * width + head * d;
        for (let t = 0; t < length; t += 1) {
          const count = model.parts.mask ? t + 1 : length, at = own + t * width;
          const place = ((first / length) * H + head) * length * length + t * length;
          dotsOfRow(ds, dy, at, v, own, width, count, d, 1);
          let expected = 0;
          for (let s = 0; s < count; s += 1) expected += shares[place + s] * ds[s];
          for (let s = 0; s < count; s += 1) {
            const p = shares[place + s];
            ds[s] = p * (ds[s] - expected) * factor;
            columns[s * length + t] = p;
            dsColumns[s * length + t] = ds[s];
          }
          meanOfValues(dq, at, ds, k, own, width, count, d, sums);
        }
        for (let s = 0; s < length; s += 1) {
          const t = model.parts.mask ? s : 0, [start, end] = [s * length + t, (s + 1) * length]; // the first query that looks at s
          meanOfValues(dv, own + s * width, columns.subarray(start, end), dy, own + t * width, width, length - t, d, sums);
          meanOfValues(dk, own + s * width, dsColumns.subarray(start, end), q, own + t * width, width, length - t, d, sums);
        }
      }
    }
  }
  const factorOf = () => (model.parts.scale ? 1 / Math.sqrt(d) : 1);

  // --- forward: every result that the way back needs is kept ---

  let pass = null;

  // The loss of the next tokens, if they are given. Sequences of `length` follow one another in `ids`.
  function forward(ids, next, length) {
    const N = ids.length, table = value.get("embedding.weight"), positions = value.get("positions.table.weight");
    const x = Array.from({ length: 2 * L + 1 }, (_, n) => memory(`x${n}`, N * D));
    for (let n = 0; n < N; n += 1) {
      for (let k = 0; k < D; k += 1) {
        x[0][n * D + k] = table[ids[n] * D + k] + (model.parts.positions ? positions[(n % length) * D + k] : 0);
      }
    }
    const layers = Array.from({ length: L }, (_, n) => {
      const kept = (name, count) => memory(`${n}.${name}`, count), block = `blocks.${n}`;
      const layer = {
        read: kept("read", N * D), q: kept("q", N * width), k: kept("k", N * width), v: kept("v", N * width),
        shares: kept("shares", N * H * length), heads: kept("heads", N * width),
        fed: kept("fed", N * D), up: kept("up", N * F), tangents: kept("tangents", N * F), hidden: kept("hidden", N * F),
      };
      normStep(layer.read, x[2 * n], N, `${block}.attention_norm`);
      for (const [name, out] of [["query", layer.q], ["key", layer.k], ["value", layer.v]]) {
        linearStep(out, layer.read, N, `${block}.attention.${name}`, width, D);
      }
      attentionStep(layer.heads, layer.shares, layer.q, layer.k, layer.v, N, length);
      linearStep(x[2 * n + 1], layer.heads, N, `${block}.attention.output`, D, width);
      addResidual(x[2 * n + 1], x[2 * n], N * D);
      normStep(layer.fed, x[2 * n + 1], N, `${block}.feedforward_norm`);
      linearStep(layer.up, layer.fed, N, `${block}.feedforward.up`, F, D);
      geluStep(layer.hidden, layer.up, layer.tangents, N * F);
      linearStep(x[2 * n + 2], layer.hidden, N, `${block}.feedforward.down`, D, F);
      addResidual(x[2 * n + 2], x[2 * n + 1], N * D);
      return layer;
    });
    const final = memory("final", N * D), logits = memory("logits", N * V);
    normStep(final, x[2 * L], N, "final_norm");
    linearStep(logits, final, N, "embedding", V, D);
    pass = { ids, next, length, x, layers, final, logits, probabilities: memory("probabilities", N * V) };
    return next === null ? null : lossOf(pass);
  }

  function addResidual(y, x, count) {
    if (model.parts.residuals) for (let n = 0; n < count; n += 1) y[n] += x[n];
  }

  // The mean of -log p(next); keeps the probabilities.
  function lossOf({ next, logits, probabilities }) {
    let loss = 0;
    for (let n = 0, at = 0; n < next.length; n += 1, at += V) {
      let most = -Infinity, sum = 0;
      for (let id = 0; id < V; id += 1) most = Math.max(most, logits[at + id]);
      for (let id = 0; id < V; id += 1) sum += probabilities[at + id] = Math.exp(logits[at + id] - most);
      for (let id = 0; id < V; id += 1) probabilities[at + id] /= sum;
      loss += Math.log(sum) + most - logits[at + next[n]];
    }
    return loss / next.length;
  }

  // --- backward ---

  function backward() {
    const { ids, next, length, x, layers, final, probabilities } = pass, N = ids.length;
    gradient.fill(0);
    model.terms = [];
    const dlogits = memory("dlogits", N * V); // p - 1 for the token that came, p for the others
    for (let n = 0; n < N * V; n += 1) dlogits[n] = probabilities[n] / N;
    for (let n = 0; n < N; n += 1) dlogits[n * V + next[n]] -= 1 / N;
    const dy = memory("dy", N * Math.max(D, F, width)), dx = zeros("dx", N * D), dread = memory("dread", N * D);
    linearBack(dread, dlogits, final, N, "embedding", V, D);
    normBack(dx, dread, x[2 * L], N, "final_norm");
    for (let n = L - 1; n >= 0; n -= 1) {
      const layer = layers[n], block = `blocks.${n}`;
      linearBack(dy, dx, layer.hidden, N, `${block}.feedforward.down`, D, F);
      geluBack(dy, layer.up, layer.tangents, N * F);
      linearBack(dread, dy, layer.fed, N, `${block}.feedforward.up`, F, D);
      if (!model.parts.residuals) dx.fill(0);
      normBack(dx, dread, x[2 * n + 1], N, `${block}.feedforward_norm`);
      linearBack(dy, dx, layer.heads, N, `${block}.attention.output`, D, width);
      if (!model.parts.residuals) dx.fill(0);
      const [dq, dk, dv] = ["dq", "dk", "dv"].map((name) => memory(name, N * width));
      attentionBack(dq, dk, dv, dy, layer.shares, layer.q, layer.k, layer.v, N, length);
      for (const [name, delta] of [["query", dq], ["key", dk], ["value", dv]]) {
        linearBack(dread, delta, layer.read, N, `${block}.attention.${name}`, width, D);
        normBack(dx, dread, x[2 * n], N, `${block}.attention_norm`);
      }
    }
    embeddingBack(dx, ids, length);
  }

  function embeddingBack(dx, ids, length) {
    const table = change.get("embedding.weight"), positions = change.get("positions.table.weight"), { watched } = model;
    for (let n = 0; n < ids.length; n += 1) {
      for (let k = 0; k < D; k += 1) {
        table[ids[n] * D + k] += dx[n * D + k];
        if (model.parts.positions) positions[(n % length) * D + k] += dx[n * D + k];
      }
      const row = { "embedding.weight": ids[n], "positions.table.weight": model.parts.positions ? n % length : -1 }[watched?.name];
      if (row === Math.floor(watched?.index / D)) model.terms.push({ at: n, input: 1, delta: dx[n * D + (watched.index % D)] });
    }
  }

  // --- AdamW: m and v are running means of g and g², corrected for their start at zero ---

  function update(rate) {
    const { beta1, beta2, eps: small, decay } = ADAMW;
    model.steps += 1;
    const start1 = 1 - beta1 ** model.steps, start2 = Math.sqrt(1 - beta2 ** model.steps);
    for (let n = 0; n < size; n += 1) {
      const g = gradient[n];
      mean[n] = beta1 * mean[n] + (1 - beta1) * g;
      square[n] = beta2 * square[n] + (1 - beta2) * g * g;
      values[n] *= 1 - rate * decay;
      values[n] -= (rate * (mean[n] / start1)) / (Math.sqrt(square[n]) / start2 + small);
    }
  }

  const model = {
    shape, list, places, size, values, gradient, mean, square, value, change, parts: { ...WHOLE }, steps: 0,
    watched: null, // { name, index }: the number whose gradient is kept term by term
    terms: [], // { at, input, delta }: they sum to the gradient of the watched number
    forward, backward, update,
    get pass() { return pass; },
  };
  initialize();
  return model;
}
