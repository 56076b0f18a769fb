// Every operation on this page, declared once: what a number was computed from, and the sum with its
// real numbers. Places of tokens begin with the number of the stream, those of attention with who looks at whom.

const tokenAt = (stream, n) => quotedAmong(scene.streams[stream].tokens, n);
const mainStream = () => scene.streams.length - 1;
const headTitle = (layer, head) => ` · layer ${layer}, head ${head}`;
// Attention has its own numbers: who looks at whom (see looksOf).
const queryAt = (look, layer, n) => nameAmong(askingStream(looksOf(scene)[look]), layer, n);
const keyAt = (look, layer, n) => nameAmong(looksOf(scene)[look], layer, n);
const queryRefs = (look, layer, n) => tokensBehind(looksOf(scene)[look], layer, n).map((token) => ref("token", looksOf(scene)[look].asks, token));
const keyRefs = (look, layer, n) => tokensBehind(looksOf(scene)[look], layer, n).map((token) => ref("token", looksOf(scene)[look].answers, token));
// Where places of a picture are merged, several tokens stand behind a position.
const tokensBehind = (look, layer, n) => (look.layers[layer].grid ? placesAt(look, layer, n) : [n]);
const equals = (value) => [" = ", term(inSum(value), "result")];

declare("token", {
  sources: () => [],
  lines(stream, n) {
    const { ids, spelling, tokens } = scene.streams[stream], bytes = spelling?.bytes[n] ?? [];
    const letters = Array.from(tokens[n]).length;
    return [
      [`token ${tokenAt(stream, n)} at position ${n}`],
      [`id ${ids[n] ?? "–"}`, bytes.length ? ` · ${bytes.length} ${bytes.length === 1 ? "byte" : "bytes"}: ${bytes.map(hexadecimal).join(" ")}` : ` · ${letters} ${letters === 1 ? "character" : "characters"}`],
    ];
  },
});

const hexadecimal = (byte) => byte.toString(16).toUpperCase().padStart(2, "0");

// --- attention: query · key / √d → softmax → Σ weight · value ---

declare("weight", {
  sources: (stream, layer, head, query, key) => [
    ref("score", stream, layer, head, query, key), ref("query", stream, layer, head, query, "*"),
    ref("key", stream, layer, head, key, "*"), ...queryRefs(stream, layer, query), ...keyRefs(stream, layer, key),
  ],
  lines(stream, layer, head, query, key) {
    const own = looksOf(scene)[stream], scores = scoresOf(own, layer, head, query), weights = sharesOf(scores);
    const title = [`weight of `, term(keyAt(stream, layer, key), "key"), ` for the query `, term(queryAt(stream, layer, query), "query"), headTitle(layer, head)];
    if (scores[key] === -Infinity) return [title, [`${whyHidden(own, layer, query, key)}, and e^−∞ = 0.`]];
    const most = Math.max(...scores), power = (n) => Math.exp(scores[n] - most);
    const total = Array.from(scores).reduce((sum, _, n) => sum + power(n), 0);
    const terms = Array.from(scores, (score, n) => [power(n), ["e^", term(inSum(score), "score", ref("score", stream, layer, head, query, n))]]).filter(([value]) => value > 0);
    return [title, [
      "softmax: e^", term(inSum(scores[key]), "score", ref("score", stream, layer, head, query, key)), " / (", ...powerSum(terms), ") = ",
      `${inSum(power(key))} / ${inSum(total)} = `, term(percent(weights[key], 2), "result"), ...(most ? [` (after dividing both by e^${inSum(most)})`] : []),
    ]];
  },
});

// Why a score does not count.
function whyHidden(look, layer, query, key) {
  const name = nameAmong(look, layer, key);
  return look.causal && key > query ? `${name} comes later: the causal mask sets its score to −∞` : `${name} is in another window: the mask sets its score to −∞`;
}

function powerSum(terms) {
  const order = [...terms].sort(([a], [b]) => b - a);
  const parts = order.slice(0, 5).flatMap(([, each], n) => (n ? [" + ", ...each] : each));
  return order.length > 5 ? [...parts, ` + ${order.length - 5} more`] : parts;
}

declare("score", {
  sources: (stream, layer, head, query, key) => [
    ref("query", stream, layer, head, query, "*"), ref("key", stream, layer, head, key, "*"),
    ...queryRefs(stream, layer, query), ...keyRefs(stream, layer, key),
  ],
  lines(stream, layer, head, query, key) {
    const own = looksOf(scene)[stream], parts = headOf(own.layers[layer], head), { width } = parts;
    const [a, b] = [vectorAt(parts.query, width, query), vectorAt(parts.key, width, key)];
    const terms = Array.from(a, (each, n) => [each * b[n], [
      term(signed(each), "query", ref("query", stream, layer, head, query, n)), " · ", term(signed(b[n]), "key", ref("key", stream, layer, head, key, n)),
    ]]);
    const bias = biasOf(own, layer, head, query, key), isHidden = scoresOf(own, layer, head, query)[key] === -Infinity;
    return [
      [`score of `, term(keyAt(stream, layer, key), "key"), ` for the query `, term(queryAt(stream, layer, query), "query"), headTitle(layer, head)],
      ["query · key / √d = (", ...sumParts(terms), `) / √${width}`, ...(bias ? [` + ${inSum(bias)} for the distance`] : []), ...equals(dotOf(a, b) / Math.sqrt(width) + bias)],
      ...(isHidden ? [[`${whyHidden(own, layer, query, key)}.`]] : []),
    ];
  },
});

declare("product", {
  sources: (stream, layer, head, query, key, n) => [ref("query", stream, layer, head, query, n), ref("key", stream, layer, head, key, n)],
  lines(stream, layer, head, query, key, n) {
    if (n === "*") return this.whole(stream, layer, head, query, key);
    const parts = headOf(looksOf(scene)[stream].layers[layer], head);
    const [a, b] = [vectorAt(parts.query, parts.width, query)[n], vectorAt(parts.key, parts.width, key)[n]];
    return [
      [`product ${n} of query and key`, headTitle(layer, head)],
      [term(inSum(a), "query", ref("query", stream, layer, head, query, n)), " · ", term(signed(b), "key", ref("key", stream, layer, head, key, n)), ...equals(a * b)],
    ];
  },
  whole: (...place) => operations.get("score").lines(...place), // all products together are the score
});

for (const kind of ["query", "key", "value"]) {
  declare(kind, {
    sources: (stream, layer, head, token) => [...(kind === "query" ? queryRefs : keyRefs)(stream, layer, token), ...(stream === 0 ? [ref("state", layer, token)] : [])],
    lines: (stream, layer, head, token, n) => projectionLines(kind, stream, layer, head, token, n),
  });
}

// What a query, key or value is computed from: the state before the layer, its norm if the model has
// it there; for attention to a source, the state after self-attention, and the output of the encoder.
function projected(kind, look, layer, token) {
  const isCross = look.name === "cross", name = nameAmong(kind === "query" ? askingStream(look) : look, layer, token);
  if (isCross && kind !== "query") return `the encoder’s output for ${name}`;
  const state = `the state of ${name} ${isCross ? `in layer ${layer}, after self-attention` : `before layer ${layer}`}`;
  return look.wiring.pre_norm ? `norm(${state})` : state;
}

// What happens to it after the product.
function afterProduct(kind, look) {
  if (kind === "value") return "";
  const { qk_norm: isNormed, is_rotary: isRotary } = look.wiring, isTurned = isRotary && look.name !== "cross";
  return [isNormed && "normalised", isTurned && "turned by its position"].filter(Boolean).map((step) => `, then ${step}`).join("");
}

// A number of a query, key or value: a row of a matrix times that.
function projectionLines(kind, stream, layer, head, token, n) {
  const look = looksOf(scene)[stream], parts = headOf(look.layers[layer], head), own = vectorAt(parts[kind], parts.width, token);
  const of = ` of ${(kind === "query" ? queryAt : keyAt)(stream, layer, token)}`, sum = `${projected(kind, look, layer, token)}${look.wiring.has_bias ? " + bias" : ""}${afterProduct(kind, look)}`;
  const name = { query: "W_Q", key: "W_K", value: "W_V" }[kind];
  if (n === "*") return [[term(kind, kind), of, headTitle(layer, head)], [`${parts.width} numbers: ${name} · ${sum}`]];
  const title = [`number ${n} of the `, term(kind, kind), of, headTitle(layer, head)];
  const found = stream === 0 ? scene.projection?.(kind, layer, head, token, n) : null;
  if (!found) return [title, [`row ${n} of ${name} · ${sum}`, ...equals(own[n]), " (this page does not carry the weights of the model)"]];
  const terms = Array.from(found.row, (weight, at) => [weight * found.state[at], [`${signed(weight)} · ${signed(found.state[at])}`]]);
  const product = dotOf(found.row, found.state) + found.bias;
  const after = found.isNormed || found.isTurned ? [`, ${[found.isNormed && "normalised", found.isTurned && `turned by position ${token}`].filter(Boolean).join(", then ")}: `, term(inSum(own[n]), "result")] : [];
  return [title, [`${name} · state${found.isStateNormed ? " (normalised)" : ""} = `, ...sumParts(terms), ...(found.bias ? [` + bias ${inSum(found.bias)}`] : []), ...equals(product), ...after]];
}

declare("output", {
  sources: (stream, layer, head, query) => [
    ...queryRefs(stream, layer, query), ...looksOf(scene)[stream].tokens.map((_, key) => ref("weight", stream, layer, head, query, key)),
    ...looksOf(scene)[stream].tokens.map((_, key) => ref("value", stream, layer, head, key, "*")),
  ],
  lines(stream, layer, head, query, n) {
    const own = looksOf(scene)[stream], parts = headOf(own.layers[layer], head), weights = weightsAt(own, layer, head, query);
    const title = [n === "*" ? "output" : `number ${n} of the output`, ` of the head for ${queryAt(stream, layer, query)}`, headTitle(layer, head)];
    if (n === "*") return [title, ["the sum of all values, each times its weight"]];
    const terms = weights.map((weight, key) => [weight * vectorAt(parts.value, parts.width, key)[n], [
      term(percent(weight), "weight", ref("weight", stream, layer, head, query, key)), " · ",
      term(signed(vectorAt(parts.value, parts.width, key)[n]), "value", ref("value", stream, layer, head, key, n)), ` ${keyAt(stream, layer, key)}`,
    ]]).filter(([, ], key) => weights[key] > 0);
    return [title, ["Σ weight · value = ", ...sumParts(terms), ...equals(terms.reduce((sum, [value]) => sum + value, 0))]];
  },
});

declare("cross", {
  sources: (layer, head, query, key) => [ref("token", mainStream(), query), ref("token", sourceNumber(), key)],
  lines(layer, head, query, key) {
    const row = crossRowOf(scene.main, layer, head, query);
    const rest = row.reduce((sum, each) => sum + each, 0) - row[key];
    return [
      [`weight of `, term(tokenAt(sourceNumber(), key), "key"), ` in the source for the query `, term(tokenAt(mainStream(), query), "query"), scene.main.layers ? headTitle(layer, head) : ""],
      ["softmax over the source: ", term(percent(row[key], 2), "result"), `; the other ${row.length - 1} tokens have ${percent(rest, 2)} together`],
    ];
  },
});

const sourceNumber = () => scene.streams.findIndex(({ name }) => name === scene.main.memory);

// --- embeddings and positions ---

declare("place", {
  sources: (n) => tokensWithId(scene.embeddings.shown[n]),
  lines(n) {
    const { names, places, shown, vector, mean, directions } = scene.embeddings, own = vector(shown[n]);
    const title = [`${quoted(names[n])} on the map`];
    if (!own) return [title, [`(${inSum(places[n][0])}, ${inSum(places[n][1])})`]];
    const width = own.length;
    return [title, ...["→", "↑"].map((axis, a) => {
      const direction = directions.data.subarray(a * width, (a + 1) * width);
      const terms = Array.from(own, (each, k) => [(each - mean.data[k]) * direction[k], [`${signed(each - mean.data[k])} · ${signed(direction[k])}`]]);
      return [`${axis} (vector − mean) · direction ${a + 1} = `, ...sumParts(terms, 3), ...equals(terms.reduce((sum, [value]) => sum + value, 0))];
    })];
  },
});

const tokensWithId = (id) => scene.main.ids.flatMap((each, n) => (each === id ? [ref("token", mainStream(), n)] : []));

declare("cosine", {
  sources: (id, other) => [...tokensWithId(id), ...tokensWithId(other), ref("place", scene.embeddings.shown.indexOf(id)), ref("place", scene.embeddings.shown.indexOf(other))],
  lines(id, other) {
    const { vector, neighbours, ids, nameOf } = scene.embeddings, [a, b] = [vector(id), vector(other)];
    const [, value] = neighbours[ids.indexOf(id)].find((each) => each[2] === other);
    const title = [`how alike the vectors of ${quoted(nameOf(id))} and ${quoted(nameOf(other))} are`];
    if (!a || !b) return [title, [`cosine ${inSum(value)}`]];
    const terms = Array.from(a, (each, n) => [each * b[n], [`${signed(each)} · ${signed(b[n])}`]]);
    return [title, ["a · b of unit vectors = ", ...sumParts(terms), ...equals(dotOf(a, b)), `, an angle of ${Math.round((180 / Math.PI) * Math.acos(Math.max(-1, Math.min(1, value))))}°`]];
  },
});

declare("position", {
  sources: (row) => [ref("token", mainStream(), row)],
  lines: (row, n) => [[`number ${n} of the vector of position ${row}`], ["added to the embedding of ", term(tokenAt(mainStream(), row), ""), ...equals(scene.embeddings.positions.vectors[row][n])]],
});

declare("alike", {
  sources: (row, column) => [ref("position", row, "*"), ref("position", column, "*"), ref("token", mainStream(), row), ref("token", mainStream(), column)],
  lines(row, column) {
    const { vectors } = scene.embeddings.positions, [a, b] = [vectors[row], vectors[column]];
    const terms = a.map((each, n) => [each * b[n], [`${signed(each)} · ${signed(b[n])}`]]);
    const [one, other] = [a, b].map((each) => Math.sqrt(dotOf(each, each)));
    return [[`positions ${row} and ${column}`], ["dot product = ", ...sumParts(terms), ...equals(dotOf(a, b)), ` · divided by the lengths ${inSum(one)} and ${inSum(other)}: cosine `, term(inSum(dotOf(a, b) / (one * other)), "result")]];
  },
});

// --- layers ---

declare("state", {
  sources: (layer, token) => [ref("token", mainStream(), token), ref("turn", layer, token)],
  lines(layer, token) {
    const { norms, places } = scene.path;
    return [[`state of ${tokenAt(mainStream(), token)}, ${layerName(layer)}`], [`length ${inSum(norms[layer][token])}; its direction is at (${places[layer][token].map(inSum).join(", ")}) on the map`]];
  },
});

declare("turn", {
  sources: (layer, token) => [ref("state", layer - 1, token), ref("state", layer, token), ref("token", mainStream(), token)],
  lines(layer, token) {
    const { norms, similar } = scene.path, cosine = similar[layer - 1][token];
    const [before, after] = [norms[layer - 1][token], norms[layer][token]];
    return [
      [`how much ${layerName(layer)} turns ${tokenAt(mainStream(), token)}`],
      [`state before · state after / (their lengths) = ${inSum(cosine * before * after)} / (${inSum(before)} · ${inSum(after)}) = cosine ${inSum(cosine)}: `, term(`${angleOf(cosine).toFixed(1)}°`, "result")],
    ];
  },
});

declare("lens", {
  sources: (layer, token) => [ref("token", mainStream(), token), ref("state", layer, token)],
  lines(layer, token) {
    const options = scene.lens[layer][token], total = scene.lensTotals?.[layer][token];
    const title = [`${tokenAt(mainStream(), token)} read after ${layer ? layerName(layer) : "the embedding"}`];
    const many = options.map(([name, p], n) => `${n ? ", " : ""}${quoted(name)} ${percent(p)}`);
    if (total === undefined || !(options[0][1] > 0)) return [title, many];
    const [name, p] = options[0], logit = Math.log(p) + total;
    return [title, [`${quoted(name)}: e^logit / Σ e^logit = e^${inSum(logit)} / e^${inSum(total)} = e^${inSum(logit - total)} = `, term(percent(p, 2), "result")], ["The likeliest: ", ...many]];
  },
});

declare("effect", {
  sources: (look, layer, head) => [...(look === lookNumber() ? [ref("thumb", layer, head)] : []), ...(scene.predictions.length ? [ref("option", scene.shownEffects[look].at, 0)] : [])],
  lines(look, layer, head) {
    const { divergence, change, at } = scene.shownEffects[look], last = scene.predictions[at]?.options[0];
    if (!last) return [[`the vector of the text without head ${head} of layer ${layer}`], ["1 − cos(v, v′)", ...equals(divergence[layer][head])]];
    const p = last.probability, q = p * Math.exp(change[layer][head]), own = p * Math.log(p / q);
    return [
      [`the prediction without head ${head} of layer ${layer}${look ? ` (${looksOf(scene)[look].label})` : ""}`],
      [`Σ p ln(p / p′) = ${signed(p)} · ln(${inSum(p)} / ${inSum(q)}) for ${quoted(last.token)} + ${signed(divergence[layer][head] - own)} for all others`, ...equals(divergence[layer][head]), " nats"],
    ];
  },
});

// --- prediction ---

declare("option", {
  sources: (at) => (scene.predictions[at].position === null ? [] : [ref("token", mainStream(), scene.predictions[at].position)]),
  lines(at, n) {
    const { token, probability: p } = scene.predictions[at].options[n], total = scene.totals?.[at];
    const title = [`probability of ${quoted(token)}`];
    if (total === undefined) return [title, [`1 / (1 + e^−logit) = 1 / (1 + e^${inSum(-Math.log(p / (1 - p)))})`, " = ", term(percent(p, 2), "result"), "; each label has a probability of its own"]];
    return [title, [`e^logit / Σ e^logit = e^${inSum(Math.log(p) + total)} / e^${inSum(total)} = `, term(percent(p, 2), "result")]];
  },
});

declare("member", {
  sources: (part, label) => (part < 2 ? [] : [ref("member", 0, label), ref("member", 1, label)]),
  lines(part, label) {
    const values = memberLogits(scene).map((logits) => logits[label]), { weight } = scene.members[part] ?? {};
    const title = [`logit of ${quoted(scene.labels[label])}: ${MEMBERS[part]}`];
    if (part === 2) return [title, [`${signed(values[0])} + ${signed(values[1])}`, ...equals(values[2])]];
    return [title, weight ? [`share · logit = ${inSum(weight)} · ${signed(values[part] / weight)}`, ...equals(values[part])] : ["its share is 0"]];
  },
});

declare("member-share", {
  sources: (part) => scene.labels.map((_, label) => ref("member", part, label)),
  lines(part, label) {
    const logits = memberLogits(scene)[part], p = memberShares(scene)[part][label];
    const how = scene.totals === null ? `1 / (1 + e^${inSum(-logits[label])})` : `e^logit / Σ e^logit = e^${inSum(logits[label])} / e^${inSum(logSum(logits))}`;
    return [[`probability of ${quoted(scene.labels[label])}: ${MEMBERS[part]}${part < 2 ? " alone" : ""}`], [`${how} = `, term(percent(p, 2), "result")]];
  },
});

declare("sampled", {
  sources: () => [ref("slider", 0), ref("slider", 1), ref("slider", 2), ref("token", mainStream(), predictionAt(scene))],
  lines(n) {
    const { names, logits: { data: logits } } = distributionAt(scene, predictionAt(scene)), t = Math.max(state.temperature, 1e-3);
    const { shares, kept, after } = sampled(logits, state.temperature, state.topK, state.topP);
    const total = logSum(Array.from(logits, (each) => each / t));
    const left = shares.slice(0, kept).reduce((a, b) => a + b, 0);
    const first = [`e^(logit / temperature) / Σ = e^(${inSum(logits[n])} / ${state.temperature}) / e^${inSum(total)} = `, term(percent(shares[n], 2), n < kept ? "" : "result")];
    const second = n >= kept ? [`cut off: it is number ${n + 1}, and ${kept} are kept`]
      : left < 0.99999 ? [`divided by the ${percent(left, 2)} that are kept: `, term(percent(after[n], 2), "result")] : [];
    return [[`probability of ${quoted(names[n])} as the next token`], first, ...(second.length ? [second] : [])];
  },
});

declare("surprise", {
  sources: (at) => [ref("token", mainStream(), scene.predictions[at].position), ref("token", mainStream(), scene.predictions[at].position + (scene.predicts === "next" ? 1 : 0))],
  lines(at) {
    const { actual, logprob, options } = scene.predictions[at];
    return [
      [`${quoted(actual)}: how surprising it was`],
      [`−log₂ p = −log₂ ${inSum(Math.exp(logprob))} = `, term(`${(-logprob / Math.LN2).toFixed(2)} bits`, "result"), `; probability ${percent(Math.exp(logprob), 2)}`],
      [`The model expected ${options.slice(0, 4).map(({ token, probability }) => `${quoted(token)} ${percent(probability)}`).join(", ")}`],
    ];
  },
});

// --- beam search ---

declare("beam", {
  sources: (n) => wayTo(scene.shownBeams.nodes, scene.shownBeams.nodes[n]).map(({ node }) => ref("beam", node)),
  lines(n) {
    const { nodes } = scene.shownBeams, node = nodes[n], way = wayTo(nodes, node);
    const terms = way.flatMap((each, at) => [at ? " + " : "", term(signed(each.logprob - (each.parent === null ? 0 : nodes[each.parent].logprob)), "", each.node === n ? null : ref("beam", each.node)), ` ${quoted(each.token)}`]);
    return [
      [`${isolated(way.map(({ token }) => visible(token)).join(scene.separator))} · ${FATES[node.fate] ?? node.fate}`],
      ["log p = ", ...terms, ...equals(node.logprob), `; score ${inSum(node.score)}`],
    ];
  },
});
