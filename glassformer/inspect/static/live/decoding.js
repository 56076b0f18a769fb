// Writing with the model in the page: the likeliest token at each step, or a beam search, as
// generation/beam.py does it. A step costs one token: the model keeps what it computed before.

// The translation of a source. The last token may be one too many to be read again.
function greedyTranslation(model, live, source, silent = []) {
  const { before, end, forbidden } = live.streams.at(-1).input;
  const most = live.longest_target[Math.min(source.length, live.longest_target.length - 1)];
  const ids = [...before];
  for (let step = 0; step < most && ids.length <= model.config.context_length; step += 1) {
    const best = likeliest(forbidding(model.trace(source, ids, silent).logits(ids.length - 1), forbidden));
    if (best === end) return { ids, isComplete: true };
    ids.push(best);
  }
  return { ids, isComplete: false };
}

// These logits, with no chance for some tokens.
function forbidding(logits, tokens) {
  const left = Float64Array.from(logits);
  for (const token of tokens) left[token] = -Infinity;
  return left;
}

function likeliest(logits) {
  let best = 0;
  for (let id = 1; id < logits.length; id += 1) if (logits[id] > logits[best]) best = id;
  return best;
}

// The ids of the largest numbers, the largest first.
function largestOf(values, count) {
  const best = [];
  for (let id = 0; id < values.length; id += 1) {
    if (best.length === count && values[id] <= values[best[count - 1]]) continue;
    let at = best.length;
    while (at > 0 && values[best[at - 1]] < values[id]) at -= 1;
    best.splice(at, 0, id);
    if (best.length > count) best.pop();
  }
  return best;
}

// A search with several beams, in small steps: each `next()` of the generator runs the model once.
// `logitsAfter(ids)` are the logits of the token after these new ones. Returns the best sequence and
// every candidate that was ranked, with its parent and what became of it. A forbidden token cannot be
// chosen, but the others do not get likelier by that.
function* beamSearchSteps(logitsAfter, { numBeams, steps, end, forbidden, prefersComplete }) {
  const nodes = [], score = (logprob, length) => logprob / length;
  let found = [], beams = [{ ids: [], logprob: 0, node: null }];
  const keep = (ids, logprob, isComplete) => {
    found.push({ ids, logprob, score: score(logprob, ids.length + isComplete), isComplete });
    found.sort((a, b) => (prefersComplete && b.isComplete - a.isComplete) || b.score - a.score);
    found = found.slice(0, numBeams);
  };
  for (let step = 1; ; step += 1) {
    const offers = [];
    for (const beam of beams) {
      const logits = logitsAfter(beam.ids), total = logSum(logits);
      for (const token of largestOf(forbidding(logits, forbidden), 2 * numBeams)) {
        if (!forbidden.includes(token)) offers.push({ beam, token, logprob: beam.logprob + logits[token] - total });
      }
      yield;
    }
    offers.sort((a, b) => b.logprob - a.logprob);
    beams = [];
    offers.slice(0, 2 * numBeams).forEach(({ beam, token, logprob }, rank) => {
      const isEnd = token === end, isComplete = isEnd && rank < numBeams;
      const isKept = !isEnd && beams.length < numBeams, node = nodes.length;
      const fate = isKept ? "kept" : isComplete ? "complete" : "outscored";
      nodes.push({ node, parent: beam.node, step, token, logprob, score: score(logprob, step), fate });
      if (isComplete) keep(beam.ids, logprob, true);
      if (isKept) beams.push({ ids: [...beam.ids, token], logprob, node });
    });
    const isLast = step >= steps;
    if (!isLast && !isSettled(found, beams, numBeams, [step + 1, steps], score)) continue;
    if (isLast && !(prefersComplete && found.length)) for (const { ids, logprob } of beams) keep(ids, logprob, false);
    for (const { node } of beams) nodes[node].fate = isLast ? "cut off" : "hopeless";
    return { nodes, best: found[0] };
  }
}

// Whether no running beam can win any more: each further token makes it less likely.
function isSettled(found, beams, numBeams, lengths, score) {
  if (!beams.length) return true;
  if (!found.length) return false;
  if (numBeams === 1) return true;
  const most = Math.max(...beams.map(({ logprob }) => logprob));
  return found[0].score >= Math.max(...lengths.map((length) => score(most, length)));
}

// log Σ e^logit
function logSum(logits) {
  let most = -Infinity, sum = 0;
  for (const each of logits) if (each > most) most = each;
  for (const each of logits) sum += Math.exp(each - most);
  return most + Math.log(sum);
}

// The nodes that spell a sequence, from the first token on.
function wayOf(nodes, { ids, isComplete }, end) {
  const way = [];
  for (const id of isComplete ? [...ids, end] : ids) {
    const parent = way.length ? way.at(-1) : null;
    const node = nodes.find((each) => each.parent === parent && each.token === id);
    if (!node) break;
    way.push(node.node);
  }
  return way;
}

// The tree of a search with four beams, and what greedy decoding would write: see
// tasks/subjects.py.
function* searchTreeSteps(logitsAfter, name, options) {
  const numBeams = 4;
  const { nodes, best } = yield* beamSearchSteps(logitsAfter, { ...options, numBeams });
  const { best: greedy } = yield* beamSearchSteps(logitsAfter, { ...options, numBeams: 1 });
  return {
    num_beams: numBeams, winner: wayOf(nodes, best, options.end),
    nodes: nodes.map((node) => ({ ...node, token: name(node.token) })),
    best: best.ids.map(name), score: best.score, greedy: greedy.ids.map(name), greedy_score: greedy.score,
  };
}

// What each token of a text costs when it is written: the multiplications with the keys and values of
// earlier tokens kept, and with all of them computed again. Each `next()` of the generator is one
// step. The source of a translation is encoded before, and in no step. The model must be a new one.
function* cacheSteps(model, inputs, silent) {
  const ids = inputs.at(-1), source = inputs.slice(0, -1);
  const costOf = (length, changes) => {
    const seen = model.trace(...source, ids.slice(0, length), silent, changes);
    const start = { ...multiplications };
    seen.logits(length - 1);
    return { ...Object.values(seen.counts).at(-1), logits: multipliedSince(start).weights };
  };
  for (let length = 1; length <= ids.length; length += 1) {
    yield { kept: costOf(length, []), anew: costOf(length, ["uncached"]) };
  }
}
