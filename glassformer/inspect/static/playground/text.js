// What the model reads and writes: the characters of a text as tokens.

const LEAST_TEXT = 200; // characters from which a model can learn anything
const HELD_OUT = 0.1; // share of the text that the model never learns from: its end

// Each character is a token, in the order of Unicode; the last token ends a text (text/tokenizers.py).
function makeAlphabet(characters) {
  const ids = new Map(characters.map((one, id) => [one, id]));
  return {
    characters,
    size: characters.length + 1,
    // The ids of a text, and the characters that have none: how many, and which.
    read(text) {
      const unknown = new Set(), found = [];
      let dropped = 0;
      for (const one of text) {
        const id = ids.get(one);
        if (id !== undefined) found.push(id);
        else if (dropped += 1) unknown.add(one);
      }
      return { ids: found, dropped, unknown: [...unknown] };
    },
    name: (id) => characters[id] ?? "the end",
  };
}

const alphabetOf = (text) => makeAlphabet([...new Set(text)].sort((a, b) => a.codePointAt(0) - b.codePointAt(0)));

// A text as the model learns from it: the end of it is held out.
function splitText(ids) {
  const cut = Math.round(ids.length * (1 - HELD_OUT));
  return { training: ids.slice(0, cut), heldOut: ids.slice(cut) };
}

// The sequences that begin at these places, and the token after each of their tokens.
function sequences(ids, starts, length) {
  const cut = (shift) => starts.flatMap((start) => ids.slice(start + shift, start + shift + length));
  return { ids: cut(0), next: cut(1), length };
}

function randomBatch(ids, count, context, random) {
  const length = Math.min(context, ids.length - 1);
  return sequences(ids, Array.from({ length: count }, () => Math.floor(random() * (ids.length - length))), length);
}

// A few sequences that do not overlap, always the same.
function fixedBatch(ids, most, context) {
  const length = Math.min(context, ids.length - 1), count = Math.min(most, Math.floor((ids.length - 1) / length));
  return sequences(ids, Array.from({ length: count }, (_, n) => n * length), length);
}

// Continues a text by `count` characters, one for each `next()`. A context that is full drops its first tokens.
function* writing(model, ids, count, temperature, random) {
  const { vocab_size: V, context_length: context } = model.shape, text = [...ids];
  for (let step = 0; step < count; step += 1) {
    const read = text.slice(-context);
    model.forward(read, null, read.length);
    const logits = model.pass.logits.slice((read.length - 1) * V, read.length * V - 1); // without the end
    for (let id = 0; id < logits.length; id += 1) logits[id] /= temperature;
    softmaxOf(logits, 0, logits.length);
    let left = random(), id = 0;
    while (id < logits.length - 1 && (left -= logits[id]) > 0) id += 1;
    text.push(id);
    yield id;
  }
}
