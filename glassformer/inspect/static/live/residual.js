// What each part of the model adds to the vector of a token, and through it to a logit, as
// inspect/residual.py computes it for pages without a model.
//
// With its scale held as it is, a norm is linear: so a logit is a sum over all that was added to the
// vector, whether norms come before the parts of a block or after them. The direction of a logit is
// followed back through the norms, the vector of a hidden unit forward.

function makeResidual(model, packed, traced) {
  const { config } = model, described = packed.streams.at(-1), { stack } = described, D = config.d_model;
  const parts = partsOf(model.weights, config), named = (layer, kind) => `${stack}.${layer}.${kind}`;
  const finalNorm = parts.norm(described.final_norm), head = parts.linear(packed.read_out.at(-1)[1]);
  const hasPositions = ["learned", "sinusoidal"].includes(config.positions) && !parts.norm(described.embedding_norm);
  const temperature = packed.labels?.temperature ?? 1;
  const stackOf = () => traced().stacks[stack];
  const ways = new Map(), columnLengths = new Map(); // by token; by layer

  // What happens to the vector of token t from its embedding to the read-out: parts that are added,
  // and norms, each with its scale.
  function wayOf(t) {
    if (!ways.has(t)) ways.set(t, traceWay(t));
    return ways.get(t);
  }
  function traceWay(t) {
    const { hidden, layers } = stackOf(), row = (data) => data.subarray(t * D, (t + 1) * D);
    const x = new Float64Array(D), steps = [];
    const put = (kind, layer, vector) => {
      const before = lengthOf(x), step = { kind, layer, vector, input: Float32Array.from(x), length: lengthOf(vector) };
      step.cosine = dotAt(x, 0, vector, 0, D) / Math.max(before * step.length, 1e-12);
      for (let k = 0; k < D; k += 1) x[k] += vector[k];
      steps.push(Object.assign(step, { after: lengthOf(x) }));
    };
    const normalize = (norm) => {
      if (norm === null) return;
      const step = heldScale(norm, x);
      through(step, x);
      if (norm.bias) for (let k = 0; k < D; k += 1) x[k] += norm.bias[k];
      steps.push(step);
    };
    const first = row(hidden[0].data), place = hasPositions ? model.positions(stack, t + 1)[t] : null;
    put("embedding", null, place ? first.map((value, k) => value - place[k]) : first);
    if (place) put("position", null, place);
    layers.forEach(({ added }, layer) => {
      for (const [kind, data] of Object.entries(added)) {
        put(kind, layer, row(data));
        if (!config.pre_norm) normalize(parts.norm(`${named(layer, kind)}_norm`));
      }
    });
    normalize(finalNorm);
    return steps;
  }

  // How much each token counts in what prediction `at` reads: [[token, share], …].
  function sharesAt(at) {
    const { pooling } = packed, { ids } = stackOf();
    if (!pooling) return [[at, 1]];
    if (pooling === "first" || pooling === "last") return [[pooling === "first" ? 0 : ids.length - 1, 1]];
    return poolingShares(ids, pooling, model.weights).map((share, t) => [t, share]);
  }

  // The parts of the logit of one output, and all biases together. `directions` are those in which the
  // logit reads what was added, by part, if it is read from one token.
  function logit(at, id) {
    const shares = sharesAt(at), values = additionsOf(wayOf(0)).map(() => 0);
    let constant = (head.bias?.[id] ?? 0) / temperature, directions = null;
    for (const [t, share] of shares) {
      const u = Float64Array.from(head.weight.subarray(id * D, (id + 1) * D), (each) => (each * share) / temperature), steps = wayOf(t);
      directions = new Array(values.length);
      for (let n = steps.length - 1, part = values.length - 1; n >= 0; n -= 1) {
        const step = steps[n];
        if (step.norm) {
          if (step.norm.bias) constant += dotAt(u, 0, step.norm.bias, 0, D);
          back(step, u);
        } else {
          values[part] += dotAt(u, 0, step.vector, 0, D);
          directions[part] = u.slice();
          part -= 1;
        }
      }
    }
    return { values, constant, directions: shares.length === 1 ? directions : null };
  }

  // The hidden units of a feed-forward layer at a token: before and after the activation, and the
  // length of the column of `down` that each writes with.
  function units(layer, t) {
    const name = named(layer, "feedforward"), step = additionsOf(wayOf(t)).find((each) => each.kind === "feedforward" && each.layer === layer);
    const up = parts.linear(`${name}.up`), gate = parts.linear(`${name}.gate`);
    let input = step.input;
    if (config.pre_norm) applyNorm(input = new Float32Array(D), step.input, 0, 1, parts.norm(`${name}_norm`));
    const product = (part) => {
      const out = new Float32Array(part.width);
      applyLinear(out, input, 0, 1, part);
      return out;
    };
    const before = product(up), gates = gate === null ? null : product(gate);
    return { input, before, gates, after: activated(before, gates, config.activation), lengths: columnLengthsOf(layer) };
  }
  function columnLengthsOf(layer) {
    if (columnLengths.has(layer)) return columnLengths.get(layer);
    const { weight, width, depth } = parts.linear(`${named(layer, "feedforward")}.down`), squares = new Float64Array(depth);
    for (let k = 0; k < width; k += 1) for (let unit = 0; unit < depth; unit += 1) squares[unit] += weight[k * depth + unit] ** 2;
    columnLengths.set(layer, squares.map(Math.sqrt));
    return columnLengths.get(layer);
  }

  // The weights of one hidden unit: its rows of `up` and `gate`, and its column of `down`.
  function unit(layer, number) {
    const name = named(layer, "feedforward"), { weight, depth } = parts.linear(`${name}.down`);
    const rowOf = (part) => part && { row: part.weight.subarray(number * D, (number + 1) * D), bias: part.bias?.[number] ?? 0 };
    const column = Float32Array.from({ length: D }, (_, k) => weight[k * depth + number]);
    return { up: rowOf(parts.linear(`${name}.up`)), gate: rowOf(parts.linear(`${name}.gate`)), column };
  }

  // What a vector that the feed-forward layer adds at token t adds to all logits of prediction `at`.
  function pushes(layer, t, at, vector) {
    const steps = wayOf(t), from = steps.findIndex((each) => each.kind === "feedforward" && each.layer === layer);
    const [, share] = sharesAt(at).find(([token]) => token === t) ?? [t, 0];
    const v = Float64Array.from(vector, (each) => (each * share) / temperature), logits = new Float32Array(head.width);
    for (const step of steps.slice(from + 1)) if (step.norm) through(step, v);
    applyLinear(logits, v, 0, 1, { ...head, bias: null });
    return logits;
  }

  // A direction before the output matrix of an attention layer: (H · d).
  function mixed(layer, kind, direction) {
    const { weight, depth } = parts.linear(`${named(layer, kind)}.output`), back = new Float64Array(depth);
    for (let k = 0; k < D; k += 1) for (let n = 0; n < depth; n += 1) back[n] += direction[k] * weight[k * depth + n];
    return back;
  }

  // What the bias of that matrix adds in a direction.
  function outputBias(layer, kind, direction) {
    const { bias } = parts.linear(`${named(layer, kind)}.output`);
    return bias ? dotAt(direction, 0, bias, 0, D) : 0;
  }

  const added = (t) => additionsOf(wayOf(t));
  return { added, logit, units, unit, pushes, mixed, outputBias };
}

// Hidden units after the activation; a gate multiplies them by its own.
function activated(before, gates, name) {
  const after = Float32Array.from(gates ?? before);
  activate(after, name, 0, after.length);
  return gates === null ? after : after.map((each, unit) => each * before[unit]);
}

const additionsOf = (steps) => steps.filter((step) => !step.norm);
const lengthOf = (x) => Math.sqrt(dotAt(x, 0, x, 0, x.length));

// A norm with the scale that it has for x: (x - mean) · factor · weight, or x · factor · weight.
function heldScale(norm, x) {
  const isCentred = norm.apply === layerNorm, centre = isCentred ? meanOf(x) : 0;
  let squares = 0;
  for (const each of x) squares += (each - centre) ** 2;
  return { norm, isCentred, factor: 1 / Math.sqrt(squares / x.length + norm.eps) };
}

// The part v of x, after the norm; and the direction u after the norm, before it. Both in place.
function through({ norm: { weight }, isCentred, factor }, v) {
  const centre = isCentred ? meanOf(v) : 0;
  for (let k = 0; k < v.length; k += 1) v[k] = (v[k] - centre) * factor * weight[k];
}
function back({ norm: { weight }, isCentred, factor }, u) {
  for (let k = 0; k < u.length; k += 1) u[k] *= factor * weight[k];
  const centre = isCentred ? meanOf(u) : 0;
  for (let k = 0; k < u.length; k += 1) u[k] -= centre;
}

const meanOf = (x) => x.reduce((sum, each) => sum + each, 0) / x.length;
