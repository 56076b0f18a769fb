// How far the page's numbers are from Python's: the same tokens through both, logit by logit.

// `model` is the result of makeLive. `difference` is the largest of all; `dtype` is how the page
// carries the weights.
function agreement(model) {
  const { inputs, positions, logits } = model.check;
  const expected = new Float32Array(bytesOf(logits).buffer);
  const seen = model.trace(...inputs);
  let difference = 0, place = 0;
  for (const position of positions) {
    for (const logit of seen.logits(position)) {
      const gap = Math.abs(logit - expected[place++]);
      if (!(gap <= difference)) difference = gap; // not a number: it stays one
    }
  }
  return { difference, dtype: model.dtype };
}
