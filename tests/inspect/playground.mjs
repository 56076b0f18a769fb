// Runs jobs on the model that learns in a page: node playground.mjs script.js < a list of [job, arguments]

import { readFileSync, writeFileSync } from "node:fs";

const names = "makeLearner, alphabetOf, splitText, randomBatch, fixedBatch, makeRandom, writing, filesOf, zipOf, readFolder";
const script = `${readFileSync(process.argv[2], "utf8")}\nexport { ${names} };`;
const api = await import(`data:text/javascript,${encodeURIComponent(script)}`);

function made({ shape, state = {}, parts = {} }) {
  const model = api.makeLearner(shape);
  Object.assign(model.parts, parts);
  for (const [name, numbers] of Object.entries(state)) model.value.get(name)?.set(numbers);
  return model;
}

const gradientOf = (model) => Object.fromEntries(model.list.map(([name]) => [name, Array.from(model.change.get(name))]));

function logitsOf(model, ids, next = null, length = ids.length) {
  model.forward(ids, next, length);
  return Array.from(model.pass.logits.subarray(0, ids.length * model.shape.vocab_size));
}

const JOBS = {
  train({ batches, length, rate, ...given }) {
    const model = made(given), losses = [];
    let gradient = null;
    for (const [ids, next] of batches) {
      losses.push(model.forward(ids, next, length));
      model.backward();
      gradient ??= gradientOf(model);
      model.update(rate);
    }
    return { losses, gradient };
  },
  pass({ ids, next, length, ...given }) {
    const model = made(given), logits = logitsOf(model, ids, next, length);
    model.backward();
    return { logits, gradient: gradientOf(model) };
  },
  // The terms of a number's gradient, and the slope of the loss when the number is changed.
  watch({ ids, next, length, name, index, ...given }) {
    const model = made(given), at = model.places.get(name).start + index, middle = model.values[at], h = 1e-5;
    model.watched = { name, index };
    model.forward(ids, next, length);
    model.backward();
    const { terms } = model, gradient = model.gradient[at];
    const [more, less] = [middle + h, middle - h].map((value) => {
      model.values[at] = value;
      return model.forward(ids, next, length);
    });
    return { terms: terms.map(({ input, delta }) => input * delta), gradient, slope: (more - less) / (2 * h) };
  },
  // A text as tokens, the loss of a first step on it, and what is written.
  read({ shape, text, begin }) {
    const alphabet = api.alphabetOf(text), { ids } = alphabet.read(text), { training, heldOut } = api.splitText(ids);
    const model = made({ shape: { ...shape, vocab_size: alphabet.size } });
    const [batch, fixed] = [api.randomBatch(training, 2, shape.context_length, api.makeRandom(1)), api.fixedBatch(heldOut, 4, shape.context_length)];
    const loss = model.forward(batch.ids, batch.next, batch.length);
    model.backward();
    model.update(0.003);
    const judged = model.forward(fixed.ids, fixed.next, fixed.length);
    const { ids: prompt, unknown } = alphabet.read(begin);
    const written = [...api.writing(model, prompt.length ? prompt : [0], 20, 0.7, api.makeRandom(1))];
    return { ids, characters: alphabet.characters, loss, judged, unknown, written: written.map(alphabet.name) };
  },
  async save({ path, text, ids, templates, ...given }) {
    const model = made(given);
    try {
      const zip = api.zipOf("saved", api.filesOf(model, api.alphabetOf(text), templates));
      writeFileSync(path, Buffer.from(await zip.arrayBuffer()));
      return logitsOf(model, ids);
    } catch (error) {
      return error.message;
    }
  },
  load({ files, ids }) {
    const bytes = Object.fromEntries(Object.entries(files).map(([name, text]) => [name, new Uint8Array(Buffer.from(text, "base64"))]));
    try {
      const { shape, parts, alphabet, tensors } = api.readFolder(bytes);
      return { characters: alphabet.characters, logits: logitsOf(made({ shape, parts, state: Object.fromEntries(tensors) }), ids) };
    } catch (error) {
      return error.message;
    }
  },
};

const found = [];
for (const [job, given] of JSON.parse(readFileSync(0, "utf8"))) found.push(await JOBS[job](given));
console.log(JSON.stringify(found));
