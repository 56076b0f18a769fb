// What the model in a page computes, as plain numbers. No API of node: it runs in a browser, too.

const plain = (tensor) => (tensor === undefined ? null : { data: Array.from(tensor.data), shape: tensor.shape });

function vectorsOf(layer) {
  const [numHeads] = layer.query.shape;
  return {
    query: plain(layer.query),
    key: plain(layer.key),
    value: plain(layer.value),
    bias: plain(layer.bias),
    causal: layer.causal,
    weights: Array.from({ length: numHeads }, (_, head) => Array.from(layer.weights(head))),
  };
}

function seenIn(trace) {
  const stacks = Object.entries(trace.stacks).map(([name, stack]) => [name, {
    hidden: stack.hidden.map(plain),
    layers: stack.layers.map((layer) => ({
      ...vectorsOf(layer),
      cross: layer.cross ? vectorsOf(layer.cross) : null,
    })),
  }]);
  const last = Object.values(trace.stacks).at(-1), [length, width] = last.hidden[0].shape;
  const positions = Array.from({ length }, (_, position) => position);
  return {
    stacks: Object.fromEntries(stacks),
    logits: positions.map((position) => Array.from(trace.logits(position))),
    lens: last.hidden.map(({ data }) => Array.from(trace.readOut(data.subarray(0, width)))),
  };
}

const difference = (a, b) => {
  const one = JSON.stringify(a), other = JSON.stringify(b);
  return one === other ? null : [one.slice(0, 200), other.slice(0, 200)];
};

const failureOf = (call) => {
  try {
    call();
    return null;
  } catch (error) {
    return error.message;
  }
};

export const JOBS = {
  // Everything that each call shows; calls are lists of arguments.
  async traces({ makeLive }, { live, calls }) {
    const model = await makeLive(live);
    return calls.map((call) => seenIn(model.trace(...call)));
  },
  // The logits of all predictions of each call.
  async logits({ makeLive }, { live, calls }) {
    const model = await makeLive(live);
    return calls.map((call) => {
      const trace = model.trace(...call);
      return Array.from({ length: trace.length }, (_, n) => Array.from(trace.logits(n)));
    });
  },
  async agreements({ makeLive, agreement }, { lives }) {
    const models = await Promise.all(lives.map(makeLive));
    return models.map(agreement);
  },
  // Where calls that follow each other differ from the same calls of a new model, and where an
  // earlier result has changed.
  async continued({ makeLive }, { live, calls }) {
    const model = await makeLive(live), kept = [];
    const wrong = [];
    for (const call of calls) {
      const trace = model.trace(...call), now = seenIn(trace);
      const fresh = seenIn((await makeLive(live)).trace(...call));
      wrong.push(difference(now, fresh));
      kept.push([trace, now]);
    }
    return { wrong, changed: kept.map(([trace, then]) => difference(seenIn(trace), then)) };
  },
  // The multiplications of each step of writing the last input.
  async costs({ makeLive, cacheSteps }, { live, inputs, silent }) {
    return [...cacheSteps(await makeLive(live), inputs, silent)];
  },
  async failures({ makeLive }, { live, calls }) {
    const model = await makeLive(live);
    return calls.map((call) => failureOf(() => model.trace(...call)));
  },
  async translations({ makeLive, greedyTranslation }, { live, sources, silent }) {
    const model = await makeLive(live);
    return sources.map((source) => greedyTranslation(model, live, source, silent));
  },
  async tokens({ makeTokenizer }, { tokenizer, texts, rows }) {
    const own = makeTokenizer(tokenizer);
    const tried = (text) => {
      try {
        return own.encode(text);
      } catch (error) {
        return error.characters;
      }
    };
    return {
      encoded: texts.map(tried),
      decoded: rows.map((ids) => own.decode(ids)),
      tokens: Array.from({ length: own.size + 1 }, (_, id) => own.token(id)),
    };
  },
  // What each part adds to the vector of every token, and to some logits of every prediction; and the
  // hidden units.
  async residual({ makeLive, makeResidual }, { live, inputs, rows, units }) {
    const model = await makeLive(live), trace = model.trace(...inputs), found = makeResidual(model, live, () => trace);
    const tokens = inputs.at(-1).map((_, t) => t), { num_layers: layers } = live.streams.at(-1);
    return {
      pushed: units.map((each) => {
        const [layer, t, unit] = each.split("/").map(Number), activation = found.units(layer, t).after[unit];
        const logits = found.pushes(layer, t, Math.min(t, rows.length - 1), found.unit(layer, unit).column.map((value) => activation * value));
        return [Math.max(...logits), Math.min(...logits)];
      }),
      added: tokens.map((t) => found.added(t).map(({ kind, layer, length, cosine, after }) => ({ part: [kind, layer], length, cosine, after }))),
      logits: rows.map((ids, at) => ids.map((id) => {
        const { values, constant } = found.logit(at, id);
        return [...values, constant];
      })),
      wanted: rows.map((ids, at) => ids.map((id) => trace.logits(at)[id] / (live.labels?.temperature ?? 1))),
      units: Array.from({ length: layers }, (_, layer) => tokens.map((t) => {
        const { before, gates, lengths } = found.units(layer, t);
        return { before: Array.from(before), gates: gates && Array.from(gates), lengths: Array.from(lengths) };
      })),
    };
  },
  async merges({ makeTokenizer }, { tokenizer, texts }) {
    const own = makeTokenizer(tokenizer);
    return texts.map((text) => own.mergeSteps(text));
  },
  async read({ makeTokenizer, readText }, { live, stream, texts }) {
    const { input } = live.streams[stream];
    const own = makeTokenizer(live.tokenizers[input.tokenizer]);
    return texts.map((text) => readText(own, input, text));
  },
};
