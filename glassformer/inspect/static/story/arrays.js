// Arrays that the page carries as binary, and the attention that follows from them.

function unpacked({ dtype, shape, data }) {
  const { buffer } = bytesOf(data);
  return { data: dtype === "float32" ? new Float32Array(buffer) : fromHalves(buffer), shape };
}

// A part of an object that is computed when it is first read.
function whenRead(object, name, compute) {
  const keep = (value) => Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
  Object.defineProperty(object, name, { enumerable: true, configurable: true, set: keep, get: () => keep(compute())[name] });
}

// A long text has many layers, of which a reader looks at a few.
function unpackLater(object, name) {
  const packed = object[name];
  whenRead(object, name, () => unpacked(packed));
}

// float16 → float32; in older browsers by a table of all 65,536 values.
let halves = null;

function fromHalves(buffer) {
  if (globalThis.Float16Array) return new Float32Array(new Float16Array(buffer));
  if (halves === null) {
    halves = new Float32Array(65536);
    for (let bits = 0; bits < 65536; bits += 1) {
      const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
      if (exponent === 31) halves[bits] = fraction ? NaN : sign * Infinity;
      else if (exponent === 0) halves[bits] = sign * fraction * 2 ** -24;
      else halves[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
    }
  }
  return Float32Array.from(new Uint16Array(buffer), (bits) => halves[bits]);
}

const headsOf = (layer) => layer.heads ?? layer.query.shape[0]; // without unpacking it

// The parts of one head: query, key and value vectors as views, without copying.
function headOf(layer, head) {
  const [heads, , width] = layer.query.shape;
  const [groups, length] = layer.key.shape, group = Math.floor((head * groups) / heads);
  const rows = (array, number, count) => {
    const size = array.shape[1] * array.shape[2];
    return array.data.subarray(number * size, number * size + size);
  };
  return {
    length, width,
    query: rows(layer.query, head), key: rows(layer.key, group), value: rows(layer.value, group),
  };
}

const vectorAt = (data, width, place) => data.subarray(place * width, (place + 1) * width);

function dotOf(a, b) {
  let sum = 0;
  for (let n = 0; n < a.length; n += 1) sum += a[n] * b[n];
  return sum;
}

// score = query · key / √d, plus a bias of relative positions; -Infinity where it may not look.
function scoresOf(stream, layer, head, query) {
  const parts = headOf(stream.layers[layer], head);
  const asks = vectorAt(parts.query, parts.width, query);
  const scores = new Float64Array(parts.length), seen = windowOf(stream.layers[layer], head, query);
  for (let key = 0; key < parts.length; key += 1) {
    const isHidden = (stream.causal && key > query) || (seen && !seen.has(key));
    scores[key] = isHidden ? -Infinity
      : dotOf(asks, vectorAt(parts.key, parts.width, key)) / Math.sqrt(parts.width)
        + (seen ? seen.get(key) : biasOf(stream, layer, head, query, key));
  }
  return scores;
}

// Where a layer attends in windows of a picture: the keys that a query may look at, with the bias of
// their distance. Null without windows.
function windowOf(layer, head, query) {
  if (!layer.windows) return null;
  layer.where ??= new Map(layer.windows.flatMap((window, n) => window.map((place, at) => [place, [n, at]])));
  const [number, at] = layer.where.get(query), size = layer.bias.shape[1];
  const regions = layer.regions[number], keys = new Map();
  layer.windows[number].forEach((place, position) => {
    if (place < 0 || regions[position] !== regions[at]) return;
    keys.set(place, layer.bias.data[(head * size + at) * size + position]);
  });
  return keys;
}

// Which keys a mask keeps from a query, and its weights with null in their place: a weight of 0 is
// something else.
function hiddenFrom(stream, layer, query) {
  const seen = windowOf(stream.layers[layer], 0, query);
  return (key) => (stream.causal && key > query) || Boolean(seen && !seen.has(key));
}

function maskedRow(stream, layer, query, weights) {
  const isHidden = hiddenFrom(stream, layer, query);
  return Array.from(weights, (weight, key) => (isHidden(key) ? null : weight));
}

// What a mask keeps from queries, in words; nothing without one.
function hiddenKeys({ causal, layers, picture }) {
  if (causal) return `later ${picture?.unit ?? "token"}s`;
  return layers.some(({ windows }) => windows?.length > 1) ? "other windows" : "";
}

function biasOf(stream, layer, head, query, key) {
  const seen = windowOf(stream.layers[layer], head, query);
  if (seen) return seen.get(key) ?? 0;
  if (!stream.bias) return 0;
  const [, rows, columns] = stream.bias.shape;
  return stream.bias.data[(head * rows + query) * columns + key];
}

function sharesOf(scores) {
  const most = Math.max(...scores);
  const powers = Array.from(scores, (score) => Math.exp(score - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((each) => each / sum);
}

// The weights of one query, and of all queries of a head (computed once and kept).
const weightsAt = (stream, layer, head, query) => sharesOf(scoresOf(stream, layer, head, query));

const KEPT_HEADS = 16; // of a text of 512 tokens, 2 MB each

function weightsOf(stream, layer, head) {
  stream.kept ??= new Map();
  if (stream.kept.size > KEPT_HEADS) stream.kept.clear();
  const name = `${layer}/${head}`;
  if (!stream.kept.has(name)) {
    const count = stream.layers[layer].query.shape[1];
    const rows = Array.from({ length: count }, (_, query) => weightsAt(stream, layer, head, query));
    stream.kept.set(name, rows);
  }
  return stream.kept.get(name);
}

// Who looks at whom: the text at itself, or the target at itself, the source at itself, and the
// target at the source. `tokens` are looked at, `asking` look; `place` is which of them is chosen.
function looksOf(scene) {
  if (scene.looks) return scene.looks;
  const { main } = scene, last = scene.streams.length - 1, source = scene.streams.findIndex(({ name, picture }) => name === main.memory && !picture);
  const within = (number, place) => {
    const stream = scene.streams[number];
    return { ...stream, place, asking: stream.tokens, asks: number, answers: number, kept: undefined, label: last ? `the ${stream.name} at itself` : "" };
  };
  const looks = [within(last, "token")];
  if (source >= 0) {
    const { layers, tokens, name } = scene.streams[source];
    if (layers) looks.push(within(source, "source"));
    if (main.cross?.[0].query) looks.push({ name: "cross", place: "token", asking: main.tokens, tokens, layers: main.cross, wiring: main.wiring, causal: false, bias: null, asks: last, answers: source, label: `the ${main.name} at the ${name}` });
  }
  scene.looks = looks;
  return looks;
}

// Those that look, in place of those looked at.
const askingStream = (look) => ({ ...look, tokens: look.asking });

// The one that the reader chose.
const lookNumber = () => Math.min(state.look, looksOf(scene).length - 1);
const lookOf = (scene) => looksOf(scene)[lookNumber()];
const layerOf = (look) => Math.min(state.layer, look.layers.length - 1);
const askingOf = (look) => Math.min(state[look.place] ?? Infinity, look.asking.length - 1);

// The weights of a head to the source of a translation: rows.
function crossWeightsOf(stream, layer, head) {
  const [, rows] = (stream.cross[layer].query ?? stream.cross[layer].weights).shape;
  return Array.from({ length: rows }, (_, row) => crossRowOf(stream, layer, head, row));
}

function crossRowOf(stream, layer, head, row) {
  if (stream.cross[layer].query) return weightsAt({ layers: stream.cross, causal: false, bias: null }, layer, head, row);
  const { data, shape: [, rows, columns] } = stream.cross[layer].weights;
  const first = (head * rows + row) * columns;
  return Array.from(data.subarray(first, first + columns));
}
