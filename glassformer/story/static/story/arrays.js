// Arrays that the page carries as binary, and the attention that follows from them.

function unpacked({ dtype, shape, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const words = dtype === "float32" ? new Float32Array(bytes.buffer) : fromHalves(bytes);
  return { data: words, shape };
}

// float16 → float32, by a table of all 65,536 values.
let halves = null;

function fromHalves(bytes) {
  if (halves === null) {
    halves = new Float32Array(65536);
    for (let bits = 0; bits < 65536; bits += 1) {
      const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
      if (exponent === 31) halves[bits] = fraction ? NaN : sign * Infinity;
      else if (exponent === 0) halves[bits] = sign * fraction * 2 ** -24;
      else halves[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
    }
  }
  const numbers = new Uint16Array(bytes.buffer);
  return Float32Array.from(numbers, (bits) => halves[bits]);
}

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
  const scores = new Float64Array(parts.length);
  for (let key = 0; key < parts.length; key += 1) {
    const isHidden = stream.causal && key > query;
    scores[key] = isHidden ? -Infinity
      : dotOf(asks, vectorAt(parts.key, parts.width, key)) / Math.sqrt(parts.width)
        + biasOf(stream, head, query, key);
  }
  return scores;
}

function biasOf(stream, head, query, key) {
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

function weightsOf(stream, layer, head) {
  stream.kept ??= new Map();
  const name = `${layer}/${head}`;
  if (!stream.kept.has(name)) {
    const rows = (stream.asking ?? stream.tokens).map((_, query) => weightsAt(stream, layer, head, query));
    stream.kept.set(name, rows);
  }
  return stream.kept.get(name);
}

// Who looks at whom: the text at itself, or the target at itself, the source at itself, and the
// target at the source. `tokens` are looked at, `asking` look; `place` is which of them is chosen.
function looksOf(scene) {
  const { main } = scene, source = scene.streams.find(({ name }) => name === main.memory);
  const within = (stream, place) => ({ ...stream, place, asking: stream.tokens, kept: undefined, label: scene.streams.length > 1 ? `the ${stream.name} at itself` : "" });
  scene.looks ??= [
    within(main, "token"),
    ...(source?.layers ? [within(source, "source")] : []),
    ...(source && main.cross?.[0].query ? [{
      name: "cross", place: "token", asking: main.tokens, tokens: source.tokens, layers: main.cross, causal: false, bias: null,
      label: `the ${main.name} at the ${source.name}`,
    }] : []),
  ];
  return scene.looks;
}

// The one that the reader chose.
const lookOf = (scene) => looksOf(scene)[Math.min(state.look, looksOf(scene).length - 1)];
const layerOf = (look) => Math.min(state.layer, look.layers.length - 1);
const askingOf = (look) => Math.min(state[look.place] ?? Infinity, look.asking.length - 1);

// The weights of a head to the source of a translation: rows.
function crossWeightsOf(stream, layer, head) {
  if (stream.cross[layer].query) {
    const [, length] = stream.cross[layer].query.shape;
    const crossed = { layers: stream.cross, causal: false, bias: null };
    return Array.from({ length }, (_, query) => weightsAt(crossed, layer, head, query));
  }
  const { data, shape } = stream.cross[layer].weights;
  const [, rows, columns] = shape;
  return Array.from({ length: rows }, (_, row) => {
    const first = (head * rows + row) * columns;
    return Array.from(data.subarray(first, first + columns));
  });
}
