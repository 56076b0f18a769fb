// The page: a text of the reader's own, a GPT that learns to continue it, and what can be seen of that.

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const SLICE = 40; // milliseconds of computing between two looks at the reader's hands
const REDRAW = 250, EVERY = { heldOut: 25, sample: 100 };
const WRITTEN = 80, TEMPERATURE = 0.7, LOOKED_AT = 20, WINDOWS = 4; // characters of a sample, of the maps; sequences held out

const page = {
  shape: data.shape, alphabet: null, model: null, isFresh: true, // as long as it has learned nothing
  training: [], heldOut: [], // ids
  batch: 2, rate: 0.003, parts: { ...WHOLE },
  curves: null, samples: [], writer: null, isTraining: false, problem: "",
  head: { layer: 0, head: 0 }, watched: { name: "blocks.0.feedforward.up.weight", index: 0 }, past: [], last: null,
  random: makeRandom(1),
};

// --- what stands where ---

addThemeButton(document.getElementById("top"));
const lead = add(main, "p", { class: "lead" });
const board = add(main, "div", { class: "board" });
const left = add(board, "div"), right = add(board, "div");

const textLine = add(left, "label", { class: "text" }, "Your text");
const textBox = add(textLine, "textarea", { rows: 7, spellcheck: "false", dir: "auto" });
const aboutText = add(left, "p", { class: "hint", "aria-live": "polite" });

const buttons = add(left, "p", { class: "buttons" });
const addButton = (label, act, style = "") => {
  const button = add(buttons, "button", { type: "button", class: style }, label);
  button.addEventListener("click", act);
  return button;
};
const trainButton = addButton("Train", () => setTraining(!page.isTraining), "main");
const stepButton = addButton("One step", oneStep);
addButton("Start anew", startAnew);
const settings = add(left, "p", { class: "settings" });
addChoice(settings, "learning rate", [0.0003, 0.001, 0.003, 0.01].map((each) => [String(each), String(each)]), "0.003", (value) => {
  page.rate = Number(value);
  mark(`rate ${value}`);
});
addChoice(settings, "sequences per step", [1, 2, 4, 8].map((each) => [String(each), String(each)]), "2", (value) => { page.batch = Number(value); });
const SWITCHES = { mask: "causal mask", positions: "positions", scale: "1 / √d", residuals: "residuals" };
const switches = add(left, "fieldset", { class: "switches" });
add(switches, "legend", {}, "Take something away, and see what happens");
const boxes = Object.fromEntries(Object.entries(SWITCHES).map(([part, name]) => [part, addControl(switches, name, { type: "checkbox", checked: "" }, (box) => {
  page.parts[part] = box.checked;
  mark(`${box.checked ? "" : "no "}${name}`);
  redraw();
})]));

const written = add(left, "section", { "aria-label": "What the model writes" });
add(written, "h2", {}, "What it writes");
const asking = add(written, "p", { class: "asking" });
const beginLine = add(asking, "label", {}, "Begin with ");
const begin = add(beginLine, "input", { type: "text", dir: "auto" });
const writeButton = add(asking, "button", { type: "button" }, "Write");
writeButton.addEventListener("click", () => { write(); });
const aboutBegin = add(written, "p", { class: "hint", "aria-live": "polite" });
begin.addEventListener("input", showBegin);
const samples = add(written, "ol", { class: "samples", reversed: "" });

const lossPart = add(right, "section", { "aria-label": "Loss" });
const lossHead = add(lossPart, "h2", {}, "Loss ");
const lossSaid = add(lossHead, "span", { class: "beside" });
const lossPlace = add(lossPart, "div");
const lossHint = add(lossPart, "p", { class: "hint" });
for (const [style, meaning] of [["training", "training"], ["held-out", "held out: the text’s end"]]) {
  const line = add(lossHint, "span", { class: "meaning" });
  add(line, "span", { class: `key ${style}` });
  line.append(` ${meaning}`);
}
const guessingLine = add(lossHint, "span", { class: "meaning" });
add(guessingLine, "span", { class: "key guess" });
const guessingSaid = add(guessingLine, "span");
const stepPart = add(right, "section", { "aria-label": "One number" });
const stepHead = add(stepPart, "h2", {}, "One number ");
const watchedSaid = add(stepHead, "span", { class: "beside" });
const stepPlace = add(stepPart, "dl", { class: "steps" });

const headPart = add(main, "section", { "aria-label": "Attention of every head" });
add(headPart, "h2", {}, "Attention of every head");
const headPlace = add(headPart, "div", { class: "head-maps" });

const numberPart = add(main, "section", { class: "number", "aria-label": "Choose the number" });
add(numberPart, "h2", {}, "Choose the number");
const nameLine = add(numberPart, "p", { class: "settings" });
const mapPlace = add(numberPart, "div", { class: "scroll" });
const mapHint = add(numberPart, "p", { class: "hint" });
const valuePlace = add(numberPart, "div");

const folderPart = add(main, "section", { class: "folder", "aria-label": "Save and load" });
add(folderPart, "h2", {}, "Keep the model");
const folderLine = add(folderPart, "p", { class: "buttons" });
const saveButton = add(folderLine, "button", { type: "button" }, "Save the model");
saveButton.addEventListener("click", save);
const loadLine = add(folderLine, "label", { class: "load" }, "Load a folder ");
const loader = add(loadLine, "input", { type: "file", webkitdirectory: "", multiple: "" });
loader.addEventListener("change", load);
const folderSaid = add(folderPart, "p", { class: "said", "aria-live": "polite" });
const useLine = add(folderPart, "p", { class: "hint" }, "A zip archive with a folder is saved. Unpack it, then: ");
add(useLine, "code", {}, `glassformer generate ${SAVED_FOLDER} "The sun"`);

// --- the text ---

function useText(text) {
  const whole = text.toWellFormed?.() ?? text;
  if (page.isFresh) setModel(page.shape, alphabetOf(whole)); // nothing is lost
  const { ids, dropped, unknown } = page.alphabet.read(whole), split = splitText(ids);
  page.problem = ids.length >= LEAST_TEXT ? "" : `The text has ${number(ids.length)} characters${unknown.length ? " that the model knows" : ""}. To learn from it, it needs at least ${LEAST_TEXT}.`;
  if (String(split.heldOut) !== String(page.heldOut)) page.curves.heldOut = []; // of another end of the text
  Object.assign(page, { training: split.training, heldOut: split.heldOut });
  const leftOut = dropped ? ` ${leftOutOf(dropped, unknown)}: start anew to learn them, too.` : "";
  aboutText.textContent = page.problem || `${counted(ids.length + dropped, "character")}, ${number(new Set(whole).size)} different ones.${leftOut}`;
  aboutText.classList.toggle("warning", Boolean(page.problem || dropped));
  if (page.problem) setTraining(false);
  for (const button of [trainButton, stepButton]) button.disabled = Boolean(page.problem);
  writeButton.disabled = page.alphabet.size === 1;
  showBegin();
  showHeads();
  redraw();
}

function leftOutOf(dropped, unknown) {
  const few = unknown.slice(0, 8).map(quotedToken).join(" ");
  return `${counted(dropped, "character")} ${dropped === 1 ? "is" : "are"} left out, since the model does not know ${few}${unknown.length > 8 ? " …" : ""}`;
}

// --- the model ---

function setModel(shape, alphabet) {
  page.alphabet = alphabet;
  page.shape = shape;
  page.model = makeLearner({ ...shape, vocab_size: alphabet.size }, 0);
  page.model.parts = page.parts;
  page.curves = { training: [], heldOut: [], marks: [], guessing: Math.log(alphabet.size) };
  Object.assign(page, { samples: [], writer: null, random: makeRandom(1) });
  if (page.head.layer >= shape.num_layers || page.head.head >= shape.num_heads) page.head = { layer: 0, head: 0 };
  guessingSaid.textContent = ` guessing: ln ${number(alphabet.size)} (${counted(alphabet.size - 1, "character")} and the end of the text)`;
  const count = page.model.size;
  lead.textContent = `${number(count)} numbers, random at first, predict the next character of your text. Each step computes how the error depends on every one of them, and moves each a little the other way. Nothing leaves this page.`;
  const matrices = page.model.list.filter(([, dims]) => dims.length === 2).map(([name]) => [name, name]);
  if (!matrices.some(([name]) => name === page.watched.name)) page.watched = { name: matrices[0][0], index: 0 };
  nameLine.textContent = "";
  addChoice(nameLine, "from", matrices, page.watched.name, (name) => watchNumber(name, 0));
  watchNumber(page.watched.name, Math.min(page.watched.index, page.model.value.get(page.watched.name).length - 1));
}

function startAnew() {
  setTraining(false);
  page.isFresh = true;
  useText(textBox.value);
}

function mark(name) {
  if (page.model.steps) page.curves.marks.push([page.model.steps, name]);
}

function step(isSlow = false) {
  const { model, watched } = page, at = model.places.get(watched.name).start + watched.index;
  const { ids, next, length } = randomBatch(page.training, page.batch, model.shape.context_length, page.random);
  let slope = null;
  if (isSlow) {
    const h = 1e-4, lossAt = (value) => {
      model.values[at] = value;
      return model.forward(ids, next, length);
    };
    const middle = model.values[at];
    slope = (lossAt(middle + h) - lossAt(middle - h)) / (2 * h);
    model.values[at] = middle;
  }
  const before = model.values[at], loss = model.forward(ids, next, length);
  if (!Number.isFinite(loss)) {
    setTraining(false);
    aboutText.textContent = "The loss is no longer a number: the steps were too large. Choose a smaller learning rate and start anew.";
    aboutText.classList.add("warning");
    return;
  }
  model.backward();
  model.update(page.rate);
  page.isFresh = false;
  const steps = model.steps;
  page.curves.training.push([steps, loss]);
  page.past.push([steps, model.values[at]]);
  page.last = {
    loss, before, slope, terms: model.terms, gradient: model.gradient[at], mean: model.mean[at], square: model.square[at],
    after: model.values[at], rate: page.rate, steps, length, tokens: ids.map(page.alphabet.name), meaning: meaningOf(watched),
  };
  if (steps % EVERY.heldOut === 0 || !page.curves.heldOut.length) judge();
}

function judge() {
  const { ids, next, length } = fixedBatch(page.heldOut, WINDOWS, page.model.shape.context_length);
  const loss = page.model.forward(ids, next, length);
  if (Number.isFinite(loss)) page.curves.heldOut.push([page.model.steps, loss]);
}

// --- the loop: in slices, so that the page answers while it computes ---

function setTraining(isTraining) {
  if (page.isTraining === isTraining) return;
  page.isTraining = isTraining;
  trainButton.textContent = isTraining ? "Pause" : "Train";
  if (isTraining) setTimeout(train);
  else {
    redraw();
    writeOn(); // what it has begun
  }
}

let drawn = 0, speed = 0;

function train() {
  if (!page.isTraining) return;
  const start = performance.now(), before = page.model.steps;
  while (page.isTraining && performance.now() - start < SLICE) {
    if (page.writer) advanceWriter();
    else {
      step();
      if (page.model.steps % EVERY.sample === 0) write();
    }
  }
  const steps = page.model.steps - before, now = performance.now();
  if (steps) speed = 0.9 * speed + (0.1 * 1000 * steps) / (now - start);
  if (now - drawn > REDRAW) redraw();
  setTimeout(train);
}

function oneStep() {
  setTraining(false);
  step(true);
  redraw();
}

// --- what it writes ---

function write() {
  const { ids } = page.alphabet.read(begin.value), first = page.heldOut[0] ?? 0, prompt = ids.length ? ids : [first];
  page.samples.unshift({ step: page.model.steps, prompt: prompt.map(page.alphabet.name).join(""), text: "" });
  page.samples.length = Math.min(page.samples.length, 5);
  page.writer = writing(page.model, prompt, WRITTEN, TEMPERATURE, page.random);
  if (!page.isTraining) writeOn();
}

function showBegin() {
  const { dropped, unknown } = page.alphabet.read(begin.value);
  aboutBegin.textContent = `Each character is drawn at temperature ${TEMPERATURE}.${dropped ? ` ${leftOutOf(dropped, unknown)}.` : ""}`;
  aboutBegin.classList.toggle("warning", dropped > 0);
}

function advanceWriter() {
  const { done, value } = page.writer.next();
  if (done) page.writer = null;
  else page.samples[0].text += page.alphabet.name(value);
}

// While the model does not learn, it writes between two frames.
function writeOn() {
  const start = performance.now();
  while (page.writer && !page.isTraining && performance.now() - start < SLICE) advanceWriter();
  showSamples();
  if (page.writer && !page.isTraining) setTimeout(writeOn);
}

function showSamples() {
  samples.textContent = "";
  for (const { step: at, prompt, text } of page.samples) {
    const item = add(samples, "li", { dir: "auto" });
    add(item, "span", { class: "at" }, `step ${number(at)} `);
    add(item, "b", {}, prompt);
    item.append(text);
  }
}

// --- drawing ---

let paintHeads = () => {};

function showHeads() {
  const ids = page.heldOut.slice(0, Math.min(LOOKED_AT, page.model.shape.context_length));
  page.lookedAt = ids;
  if (!ids.length) return;
  paintHeads = makeHeadMaps(headPlace, page.model, ids.map(page.alphabet.name), page.head, (layer, head) => {
    page.head = { layer, head };
    showHeads();
    headPlace.querySelector(".thumb.chosen").focus();
    redraw();
  });
}

function redraw() {
  drawn = performance.now();
  if (!page.model) return;
  const { training, heldOut } = page.curves, last = training.at(-1);
  lossSaid.textContent = last
    ? `Step ${number(last[0])}: ${number(recent(training))}; held out ${heldOut.length ? number(heldOut.at(-1)[1]) : "not measured yet"}${page.isTraining ? ` · ${number(Math.round(speed * 10) / 10)} steps per second` : ""}`
    : "Press Train.";
  drawLoss(lossPlace, page.curves);
  if (page.lookedAt?.length) {
    page.model.forward(page.lookedAt, null, page.lookedAt.length);
    paintHeads();
  }
  page.map.paint();
  drawValue(valuePlace, page.past);
  showStep();
  showSamples();
}

// The mean of the last losses: single ones jump.
const recent = (points) => points.slice(-20).reduce((sum, [, value]) => sum + value, 0) / Math.min(20, points.length);

// --- one number ---

function watchNumber(name, index, hasFocus = false) {
  const [rows, columns] = page.model.places.get(name).shape;
  Object.assign(page, { watched: { name, index }, past: [], last: null });
  page.model.watched = page.watched;
  const values = page.model.value.get(name);
  page.map = makeWeightMap(mapPlace, { name, rows, columns, values, label: labelOf(page.watched) }, index, (next) => watchNumber(name, next, true));
  page.map.paint();
  if (hasFocus) page.map.canvas.focus();
  drawValue(valuePlace, page.past);
  watchedSaid.textContent = `one of ${number(page.model.size)}: row ${Math.floor(index / columns)}, column ${index % columns} of ${name}`;
  mapHint.textContent = `Blue: positive; orange: negative. Press on a number to choose it.${rows > columns ? " The matrix lies on its side: each of its rows is a column here." : ""}`;
  showStep();
}

// The place of a number, and the number.
function labelOf({ name, index }) {
  const [, columns] = page.model.places.get(name).shape;
  return `Row ${Math.floor(index / columns)}, column ${index % columns}: ${exactly(page.model.value.get(name)[index])}`;
}

// The last step of the chosen number, if there was one.
function showStep() {
  if (page.last) writeStep(stepPlace, page.last);
  else stepPlace.textContent = `${labelOf(page.watched)}. Press One step: its step is written out here. Choose another number below.`;
}

// What a number is for, in a sentence.
function meaningOf({ name, index }) {
  const [, columns] = page.model.places.get(name).shape, row = Math.floor(index / columns), column = index % columns;
  if (name === "embedding.weight") return `It is number ${column} of the vector of ${quotedToken(page.alphabet.name(row))}: the input of this token, and its part of every prediction.`;
  if (name === "positions.table.weight") return `It is number ${column} of the vector that is added at position ${row}.`;
  return `It multiplies number ${column} of what the layer reads, for every token; the product is added to number ${row} of what it returns.`;
}

// --- saving and loading ---

function save() {
  try {
    const zip = zipOf(SAVED_FOLDER, filesOf(page.model, page.alphabet, data.templates));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(zip);
    link.download = `${SAVED_FOLDER}.zip`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    folderSaid.textContent = `Saved ${SAVED_FOLDER}.zip, after ${counted(page.model.steps, "step")}.`;
  } catch (error) {
    folderSaid.textContent = `${error.message}.`;
  }
}

async function load() {
  const asked = new Set(["config.json", "model.safetensors", "tokenizer.json"]);
  const depthOf = (file) => (file.webkitRelativePath || file.name).split("/").length;
  const sorted = [...loader.files].sort((a, b) => depthOf(b) - depthOf(a)); // of two with one name, the upper one
  const found = Object.fromEntries(sorted.filter(({ name }) => asked.has(name)).map((file) => [file.name, file])), files = {};
  loader.value = "";
  try {
    for (const file of Object.values(found)) files[file.name] = new Uint8Array(await file.slice(0, MOST_BYTES).arrayBuffer());
    const { shape, parts, alphabet, tensors } = readFolder(files);
    setTraining(false);
    Object.assign(page.parts, parts);
    for (const [part, box] of Object.entries(boxes)) box.checked = page.parts[part];
    setModel(shape, alphabet);
    for (const [name, numbers] of tensors) page.model.value.get(name).set(numbers);
    page.isFresh = false;
    folderSaid.textContent = "Loaded. Its next step is its first here: AdamW's means are not in the folder.";
    useText(textBox.value);
  } catch (error) {
    folderSaid.textContent = `This folder cannot be loaded: ${error.message}.`;
  }
}

// --- the start ---

textBox.value = data.text;
textBox.addEventListener("input", () => useText(textBox.value));
globalThis.addEventListener("resize", () => {
  showHeads();
  redraw();
});
useText(textBox.value);
begin.value = page.heldOut.slice(0, 8).map(page.alphabet.name).join("");
showBegin();
