// The model as a folder that `glassformer generate` reads, in a zip archive, and the way back.
//
//     config.json  model.safetensors  tokenizer.json  preprocessor_config.json

const SAVED_FOLDER = "gpt-playground";

// The files of the folder; `templates` are those of a GPT that reads characters, as Python writes them.
// What the reader took away from the model is a setting of the saved one, or part of its weights.
function filesOf(model, alphabet, templates) {
  const { shape, parts } = model, utf8 = (values) => new TextEncoder().encode(`${JSON.stringify(values, null, 2)}\n`);
  if (!parts.mask) throw Error("A model without the causal mask is no GPT that can write. Switch the mask on to save it");
  if (!parts.residuals) throw Error("glassformer has no GPT without residual connections. Switch them on to save the model");
  const config = { ...templates.config, ...shape, positions: parts.positions ? "learned" : "none" };
  const tokenizer = structuredClone(templates.tokenizer);
  tokenizer.model.vocab = Object.fromEntries(alphabet.characters.map((one, id) => [one, id]));
  for (const each of tokenizer.added_tokens) each.id = alphabet.size - 1;
  const tensors = model.list.filter(([name]) => parts.positions || name !== "positions.table.weight").map(([name, dims]) => {
    // softmax(q · k) without 1 / √d is softmax(q' · k / √d) with queries that are √d times as large.
    const factor = !parts.scale && /attention\.query\./.test(name) ? Math.sqrt(shape.head_dim) : 1;
    return [name, dims, Float32Array.from(model.value.get(name), (each) => factor * each)];
  });
  return {
    "config.json": utf8(config), "model.safetensors": safetensorsOf(tensors),
    "tokenizer.json": utf8(tokenizer), "preprocessor_config.json": utf8(templates.preprocessor),
  };
}

// A length, a header in JSON, and the numbers of all tensors, one after the other.
function safetensorsOf(tensors) {
  const header = { __metadata__: { format: "pt" } };
  let end = 0;
  for (const [name, shape, { byteLength }] of tensors) {
    header[name] = { dtype: "F32", shape, data_offsets: [end, end + byteLength] };
    end += byteLength;
  }
  const text = JSON.stringify(header), words = new TextEncoder().encode(text.padEnd(Math.ceil(text.length / 8) * 8));
  const file = new Uint8Array(8 + words.length + end), view = new DataView(file.buffer);
  view.setUint32(0, words.length, true);
  file.set(words, 8);
  let at = 8 + words.length;
  for (const [, , numbers] of tensors) for (const each of numbers) {
    view.setFloat32(at, each, true);
    at += 4;
  }
  return file;
}

// The numbers of these parameters.
function readSafetensors(bytes, list) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = bytes.length < 8 ? Infinity : 8 + Number(view.getBigUint64(0, true));
  if (start > bytes.length) throw Error("its model.safetensors is damaged: it ends within its header");
  const header = objectOf(bytes.subarray(8, start), "model.safetensors");
  return new Map(list.map(([name, dims]) => {
    const { dtype, shape, data_offsets: offsets } = Object(header[name]), [first, last] = Array.isArray(offsets) ? offsets : [];
    if (!Array.isArray(shape) || shape.join() !== dims.join()) throw Error(`${name} in its model.safetensors does not have the shape that config.json gives`);
    if (dtype !== "F32") throw Error(`its model.safetensors holds ${dtype} numbers: the page reads F32`);
    const length = dims.reduce((x, y) => x * y);
    if (!(Number.isInteger(first) && first >= 0 && last - first === 4 * length && start + last <= bytes.length)) throw Error(`its model.safetensors is damaged: it does not hold all of ${name}`);
    const numbers = Float64Array.from({ length }, (_, n) => view.getFloat32(start + first + 4 * n, true));
    if (!numbers.every(Number.isFinite)) throw Error(`${name} in its model.safetensors has values that are not finite`);
    return [name, numbers];
  }));
}

function objectOf(bytes, name) {
  try {
    const found = JSON.parse(new TextDecoder().decode(bytes));
    if (Object(found) === found) return found;
  } catch { /* the sentence below says so */ }
  throw Error(`its ${name} is damaged: a JSON object is missing`);
}

// --- loading: { name: bytes } → { shape, parts, alphabet, tensors }; an error says what the folder is instead ---

const MOST_PARAMETERS = 2_000_000; // more take seconds for a step
const MOST_WEIGHTS = 2_000_000; // of the attention of one sequence
const MOST_BYTES = 64 * 2 ** 20; // that are read of a file
const TEACHABLE = { positions: ["learned", "none"], norm: ["layer"], pre_norm: [true], final_norm: [true], qk_norm: [false], activation: ["gelu_tanh"], bias: [true], output_bias: [false], tie_weights: [true] };

function readFolder(files) {
  const json = (name) => {
    if (!files[name]) throw Error(`it has no ${name}: choose the folder of a trained model`);
    return objectOf(files[name], name);
  };
  const config = json("config.json");
  if (config.model_type !== "gpt") throw Error(`its model is ${config.model_type ?? "unknown"}: this page learns with a GPT of the preset nano`);
  for (const [name, possible] of Object.entries(TEACHABLE)) {
    if (!possible.includes(config[name])) throw Error(`${name} of its GPT is ${config[name]}: this page learns with the preset nano, where it is ${possible.join(" or ")}`);
  }
  const { num_layers, num_heads, d_model, vocab_size, context_length, norm_eps } = config;
  const sizes = { num_layers, num_heads, d_model, vocab_size, context_length, d_feedforward: config.d_feedforward ?? 4 * d_model, head_dim: config.head_dim ?? d_model / num_heads };
  const isPlain = (config.num_kv_heads ?? num_heads) === num_heads && (config.d_embedding ?? d_model) === d_model;
  if (!isPlain || !Object.values(sizes).every((each) => Number.isInteger(each) && each > 0) || !(norm_eps > 0)) {
    throw Error("its GPT shares keys among heads or has sizes that the preset nano does not have");
  }
  const shape = { ...sizes, norm_eps }, size = sizeOf(shape), weights = num_layers * num_heads * context_length ** 2;
  if (size > MOST_PARAMETERS) throw Error(`its GPT has ${number(size)} parameters: the page can train up to ${number(MOST_PARAMETERS)}`);
  if (weights > MOST_WEIGHTS) throw Error(`its context of ${number(context_length)} tokens gives ${number(weights)} attention weights: the page computes up to ${number(MOST_WEIGHTS)}`);
  const alphabet = readAlphabet(json("tokenizer.json"), vocab_size), hasPositions = config.positions === "learned";
  if (!files["model.safetensors"]) throw Error("it has no model.safetensors");
  const list = parametersOf(shape).filter(([name]) => hasPositions || name !== "positions.table.weight");
  return { shape, parts: { ...WHOLE, positions: hasPositions }, alphabet, tensors: readSafetensors(files["model.safetensors"], list) };
}

function readAlphabet({ model, normalizer, added_tokens: added }, size) {
  const entries = Object.entries(model?.vocab ?? {}).sort(([, a], [, b]) => a - b);
  const isOfCharacters = model?.type === "WordLevel" && !normalizer && entries.length === size - 1 && added?.length === 1
    && entries.every(([text, id], n) => Array.from(text).length === 1 && id === n);
  if (!isOfCharacters) throw Error("its tokens are not the characters of the text: train a GPT with --set tokenizer.kind=char");
  return makeAlphabet(entries.map(([text]) => text));
}

// --- a zip archive without compression ---

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit += 1) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC_TABLE[(crc ^ byte) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

function zipOf(folder, files) {
  const parts = [], directory = [];
  let end = 0;
  const push = (list, ...pieces) => pieces.forEach((piece) => list.push(piece));
  const entries = Object.entries(files).map(([name, bytes]) => ({ name: new TextEncoder().encode(`${folder}/${name}`), bytes }));
  for (const { name, bytes } of entries) {
    // version, flags, method (0: stored), time, date (1980-01-01), checksum, two sizes, lengths of name and extra field
    const about = [[20, 2], [0x0800, 2], [0, 2], [0, 2], [33, 2], [crc32(bytes), 4], [bytes.length, 4], [bytes.length, 4], [name.length, 2], [0, 2]];
    push(directory, littleEndian([[0x02014b50, 4], [20, 2], ...about, [0, 2], [0, 2], [0, 2], [0, 4], [end, 4]]), name);
    const head = littleEndian([[0x04034b50, 4], ...about]);
    push(parts, head, name, bytes);
    end += head.length + name.length + bytes.length;
  }
  const size = directory.reduce((sum, piece) => sum + piece.length, 0);
  return new Blob([...parts, ...directory, littleEndian([[0x06054b50, 4], [0, 4], [entries.length, 2], [entries.length, 2], [size, 4], [end, 4], [0, 2]])], { type: "application/zip" });
}

function littleEndian(fields) {
  return Uint8Array.from(fields.flatMap(([value, bytes]) => Array.from({ length: bytes }, (_, n) => (value >>> (8 * n)) & 255)));
}
