// The translation of a source, token by token the likeliest. Each step costs one token: the model
// keeps what it computed for the tokens before (model.js).

function greedyTranslation(model, live, source, silent = []) {
  const { input } = live.streams.at(-1), [end] = input.after;
  const most = live.longest_target[Math.min(source.length, live.longest_target.length - 1)];
  const ids = [...input.before];
  for (let step = 0; step < most; step += 1) {
    const logits = model.trace(source, ids, silent).logits(ids.length - 1);
    const best = likeliest(logits);
    if (best === end) return { ids, isComplete: true };
    ids.push(best);
    if (ids.length > model.config.context_length) break; // the last token cannot be read
  }
  return { ids, isComplete: false };
}

function likeliest(logits) {
  let best = 0;
  for (let id = 1; id < logits.length; id += 1) if (logits[id] > logits[best]) best = id;
  return best;
}
