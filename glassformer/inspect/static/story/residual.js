// The residual stream: what each part adds to the vector of a token, and to the logit of a prediction.

chapters.push({
  id: "residual",
  title: "The residual stream",
  equation: ({ main }) => streamEquation(main),
  note: ({ main, residual }) => {
    const sum = main.wiring.pre_norm ? "" : ", and the sum is normalised";
    return `No layer replaces the vector of a ${oneOf(main)}: each part adds a vector to it${sum}. ${residual.why === null ? "The output layer reads the sum, so a logit is a sum, too: of what each part adds to it." : ""}`;
  },
  isShown: (scene) => Boolean(scene.residual),
  draw(place, scene) {
    if (!scene.insides) return void add(place, "p", { class: "hint" }, "The model of this page is still being unpacked.");
    const said = add(place, "p", { class: "said" }), grid = add(place, "div", { class: "side" });
    const added = addFigure(grid, { name: "What each part adds to the vector", of: ["token"] });
    const logit = scene.residual.why === null ? addFigure(grid, { name: "What each part adds to the logit", of: ["token"] }) : null;
    if (!logit) add(grid, "p", { class: "hint" }, `The logits of this model are not taken apart: ${scene.residual.why}.`);
    follow(["token"], () => {
      added.textContent = "";
      drawAdded(added, scene, state.token);
    });
    if (logit) follow(["token", "option"], () => {
      logit.textContent = "";
      drawLogit(logit, said, scene, predictionAt(scene));
    });
    else follow(["token"], () => writeProse(said, ["What is added to the vector of ", tokenPick(scene.main, "token", state.token, "token", "query"), ", part by part."]));
  },
});

function streamEquation({ wiring, cross }) {
  const parts = ["attention", ...(cross ? ["cross-attention"] : []), "feed-forward"];
  const colours = { attention: "output", "cross-attention": "key", "feed-forward": "value" };
  const sum = parts.flatMap((name, n) => [n ? " + " : "", { text: name, kind: colours[name] }]);
  return wiring.pre_norm ? ["x = embedding + Σ (", ...sum, ")"] : ["x ← norm(x + part),  parts: ", ...parts.flatMap((name, n) => [n ? ", " : "", { text: name, kind: colours[name] }])];
}

// --- what the page knows of the inside: computed by its own model, or carried ---

const SHOWN_TOKENS = 5; // that a unit makes likelier, and as many that it makes less likely

// The names of the outputs whose logits are taken apart: the likeliest, and the right one.
const outputsAt = ({ insides }, at) => insides.outputs(at);

function liveInsides(found, model, live, traced) {
  const residual = makeResidual(model, live, traced), isWhole = found.predicts === "whole";
  const { end } = live.streams.at(-1).input; // of a translation
  const actualId = (at) => (found.predicts === "next" ? found.main.ids[at + 1] ?? end : found.main.ids[at]);
  const read = new Map(), logits = new Map(); // units by layer and token; of predictions
  const logitsAt = (at) => logits.get(at) ?? logits.set(at, found.logitsAt(at)).get(at);
  const idsAt = (at) => {
    const { options, actual } = found.predictions[at], best = largestOf(logitsAt(at), options.length);
    return actual === null || best.includes(actualId(at)) ? best : [...best, actualId(at)];
  };
  const units = (layer, t) => {
    const name = `${layer}/${t}`;
    if (!read.has(name)) {
      const each = residual.units(layer, t), strengths = each.after.map((value, unit) => Math.abs(value) * each.lengths[unit]);
      read.set(name, { ...each, order: largestOf(strengths, SHOWN_UNITS) });
    }
    return read.get(name);
  };
  return {
    isPooled: isWhole, units,
    added: (t) => residual.added(t),
    outputs: (at) => idsAt(at).map(found.nameOf),
    logit(at, n) {
      const id = idsAt(at)[n];
      return { ...residual.logit(at, id), logit: logitsAt(at)[id] };
    },
    weights: residual.unit,
    pushed(layer, t, unit) {
      const { column } = residual.unit(layer, unit), activation = units(layer, t).after[unit];
      const pushes = residual.pushes(layer, t, isWhole ? 0 : t, column.map((each) => activation * each));
      const most = (values) => largestOf(values, SHOWN_TOKENS).map((id) => [found.nameOf(id), pushes[id]]);
      return [most(pushes), most(pushes.map((each) => -each))];
    },
    mixed: residual.mixed, outputBias: residual.outputBias,
  };
}

function carriedInsides(found) {
  const { residual } = found, { parts, units } = residual;
  if (!parts) return null; // the page's model computes them
  for (const name of ["length", "cosine", "after"]) unpackLater(residual, name);
  for (const name of units ? ["before", "gates", "lengths"] : []) if (units[name]) unpackLater(units, name);
  for (const name of residual.logits ? ["values", "logits"] : []) unpackLater(residual.logits, name);
  const count = found.main.tokens.length, numbers = (name, n, t) => residual[name].data[n * count + t];
  const atRow = ({ data, shape: [, second, width] }, layer, n) => vectorAt(data, width, layer * second + n);
  return {
    isPooled: found.predicts === "whole", unitTokens: units?.tokens ?? [],
    added: (t) => parts.map(([kind, layer], n) => ({ kind, layer, length: numbers("length", n, t), cosine: numbers("cosine", n, t), after: numbers("after", n, t) })),
    outputs(at) {
      const { options, actual } = found.predictions[at], names = options.map(({ token }) => token);
      return actual === null || names.includes(actual) ? names : [...names, actual];
    },
    logit(at, n) {
      const row = residual.logits.at.indexOf(at);
      if (row < 0) return null;
      const { values, logits } = residual.logits, [, options, width] = values.shape, all = vectorAt(values.data, width, row * options + n);
      return { values: Array.from(all.subarray(0, width - 1)), constant: all[width - 1], directions: null, logit: logits.data[row * options + n] };
    },
    units(layer, t) {
      const n = units?.tokens.indexOf(t) ?? -1;
      if (n < 0) return null;
      const before = atRow(units.before, layer, n), gates = units.gates && atRow(units.gates, layer, n);
      const [, width] = units.lengths.shape;
      return { before, gates, after: activated(before, gates, residual.activation), lengths: vectorAt(units.lengths.data, width, layer), order: units.order[layer][n], input: null };
    },
    weights: () => null,
    pushed: (layer, t, unit) => units.pushes[`${layer}/${t}/${unit}`] ?? null,
  };
}

// --- names of parts ---

const PART_NAMES = { embedding: "embedding", position: "position", attention: "attention", cross_attention: "cross-attention", feedforward: "feed-forward" };
const PART_COLOURS = { attention: "output", cross_attention: "key", feedforward: "value" };
const partNumber = (kind, layer) => scene.insides.added(0).findIndex((each) => each.kind === kind && each.layer === layer);
const partName = ({ kind, layer }) => (layer !== null ? `${PART_NAMES[kind]} ${layer}` : kind === "embedding" && scene.residual.is_normed ? "embeddings, normalised" : PART_NAMES[kind]);
const ofKind = ({ kind }) => (PART_COLOURS[kind] ? `of-${PART_COLOURS[kind]}` : "");

// The parts that have been added before the feed-forward layer reads the vector.
const partsBefore = (layer, t) => scene.insides.added(t).flatMap((each, n) => (n < partNumber("feedforward", layer) ? [ref("added", t, n)] : []));

// A row of a table of parts: a name, a cell for the picture, a number. Parts of one layer stand together.
function addPartRow(body, part, name) {
  const isFirst = part && part.layer !== null && part.kind === "attention";
  const row = add(body, "tr", { class: `${part ? ofKind(part) : ""} ${isFirst ? "first-of-layer" : ""}` });
  add(row, "th", { scope: "row" }, name);
  return row;
}

function addPartsTable(box, columns) {
  const table = add(box, "table", { class: "parts" }), head = add(add(table, "thead"), "tr");
  columns.forEach((name, n) => add(head, "th", { scope: "col", class: n === 1 ? "left" : "" }, name));
  return add(table, "tbody");
}

// --- what is added to the vector ---

function drawAdded(box, scene, t) {
  const parts = scene.insides.added(t), most = Math.max(...parts.map(({ length }) => length));
  const body = addPartsTable(box, ["part", "length added", "direction", "sum"]);
  const rows = parts.map((part, n) => {
    const row = means(addPartRow(body, part, partName(part)), "added", t, n);
    const bar = add(add(row, "td", { class: "bar-cell" }), "span", { class: "bar-line" });
    add(bar, "span", { class: "bar-fill" }).style.width = `${rounded((70 * part.length) / most)}%`;
    add(bar, "span", {}, number(Number(part.length.toPrecision(3))));
    const turn = add(row, "td", { class: "turn" });
    if (n) {
      addNeedle(turn, part.cosine);
      add(turn, "span", {}, `${angleOf(part.cosine).toFixed(0)}°`);
    }
    add(row, "td", { class: "value of-sum" }, number(Number(part.after.toPrecision(3))));
    return row;
  });
  rove(body, rows, 1);
  const norm = scene.main.wiring.pre_norm ? "" : " before its norm";
  setCaption(box, `${quotedAmong(scene.main.tokens, t)}: the length of each addition, its direction relative to the vector it is added to (0°: along it; 90°: something new; 180°: against it), and the length of the sum${norm}.`);
}

// An arrow at the angle to a stream that flows to the right.
function addNeedle(parent, cosine) {
  const svg = add(parent, "svg", { class: "needle", width: 22, height: 22, "aria-hidden": "true" }), sine = Math.sqrt(Math.max(0, 1 - cosine * cosine));
  const end = [rounded(11 + 9 * cosine), rounded(13 - 9 * sine)];
  add(svg, "path", { class: "ground", d: "M2 13H20" });
  add(svg, "path", { d: `M11 13L${end.join(" ")}` });
  add(svg, "circle", { cx: end[0], cy: end[1], r: 2.2 });
}

// --- what is added to the logit ---

const optionAt = (scene, at) => Math.min(state.option ?? 0, outputsAt(scene, at).length - 1);

function drawLogit(box, said, scene, at) {
  const names = outputsAt(scene, at), option = optionAt(scene, at), found = scene.insides.logit(at, option);
  const where = { next: ["after ", tokenPick(scene.main, "token", state.token, "token", "query")], same: ["at ", tokenPick(scene.main, "token", state.token, "token", "query")], whole: [`of the ${scene.main.picture ? "picture" : "text"}`] }[scene.predicts];
  if (!found) return writeProse(said, ["The page takes the logits apart only at the prediction at which it opened; this is the one ", ...where, "."]);
  const parts = scene.insides.added(0), { values, constant, logit } = found, sum = values.reduce((a, b) => a + b, constant);
  const pick = { pick: "option", label: "output", options: names.map((name, n) => [n, short(visible(name), 16)]), chosen: option };
  writeProse(said, ["The logit of ", pick, " ", ...where, " is ", term(number(logit), "", ref("logit", at, option)), ": ", ...totals(parts, values, constant), "."]);
  const ends = [], digits = digitsFor(values); // running sums
  for (const value of [...values, constant]) ends.push((ends.at(-1) ?? 0) + value);
  const low = Math.min(0, ...ends), range = Math.max(0, ...ends) - low || 1, share = (value) => rounded((100 * (value - low)) / range);
  const body = addPartsTable(box, ["part", "sum so far", "adds"]), rows = [];
  const draw = (part, name, from, to, of) => {
    const row = means(addPartRow(body, part, name), ...of), cell = add(add(row, "td", { class: "waterfall" }), "span", { class: "fall" });
    const zero = add(cell, "span", { class: "zero" }), bar = add(cell, "span", { class: to < from ? "drop against" : "drop" });
    zero.style.left = `${share(0)}%`;
    Object.assign(bar.style, { left: `${share(Math.min(from, to))}%`, width: `${rounded((100 * Math.abs(to - from)) / range)}%` });
    add(row, "td", { class: "value" }, of[0] === "logit" ? to.toFixed(digits).replace("-", "−") : withSignOf(to - from, digits));
    rows.push(row);
    return row;
  };
  parts.forEach((part, n) => draw(part, partName(part), n ? ends[n - 1] : 0, ends[n], ["logit-part", at, option, n]));
  if (constant) draw(null, "biases", ends.at(-2), ends.at(-1), ["logit-part", at, option, parts.length]);
  draw(null, "logit", 0, ends.at(-1), ["logit", at, option]).classList.add("total");
  rove(body, rows, 1);
  const whole = scene.insides.isPooled ? ` The numbers are sums over all ${unitsOf(scene.main)}, each as far as it counts in what is read.` : "";
  setCaption(box, `${quoted(names[option])}: from the embedding to the logit, part by part, with the scale of the norms held as it is. The parts sum to ${sum.toFixed(5).replace("-", "−")}; the logit is ${logit.toFixed(5).replace("-", "−")} (difference ${Math.abs(sum - logit).toExponential(0)}).${whole} Softmax sees only differences between logits: choose another ${scene.labels?.length ? "label" : "token"} to compare.`);
  describe(box, `Logit of ${quoted(names[option])}: ${parts.map((part, n) => `${partName(part)} ${withSignOf(values[n])}`).join(", ")}`);
}

// +0.25 or −0.0031: what rounds to nothing has no sign.
function withSignOf(value, digits = 2) {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) ? withSign(value, text) : text;
}
// Digits that tell numbers of this size apart.
const digitsFor = (values) => Math.max(2, Math.min(6, 1 - Math.floor(Math.log10(Math.max(...values.map(Math.abs)) || 1))));

// The sum of all parts of a kind: "embedding 0.3 + attention 1.2 + feed-forward 4.1 + biases 0.1".
function totals(parts, values, constant) {
  const sums = new Map(), digits = digitsFor(values);
  parts.forEach(({ kind }, n) => {
    const name = kind === "position" ? "embedding" : kind; // both are the input
    sums.set(name, (sums.get(name) ?? 0) + values[n]);
  });
  const shown = [...sums].map(([kind, value]) => [term(PART_NAMES[kind], PART_COLOURS[kind] ?? ""), ` ${withSignOf(value, digits)}`]);
  if (constant) shown.push([`biases ${withSignOf(constant, digits)}`]);
  return shown.flatMap((each, n) => (n ? [", ", ...each] : each));
}

// --- where these numbers come from ---

declare("added", {
  sources: (t, n) => {
    const { layer } = scene.insides.added(t)[n];
    return [ref("token", mainStream(), t), ...(layer === null ? [] : [ref("state", layer + 1, t)]), ...logitOf(t).map((place) => ref("logit-part", ...place, n))];
  },
  lines(t, n) {
    const all = scene.insides.added(t), part = all[n], { length, cosine, after } = part, before = n ? all[n - 1].after : 0;
    const title = [`what ${partName(part)} adds to `, term(tokenAt(mainStream(), t), "query")];
    if (!n) return [title, [`a vector of length ${inSum(length)}, with which the stream begins`]];
    const lines = [title, [`length ${inSum(length)}; at ${angleOf(cosine).toFixed(1)}° (cosine ${inSum(cosine)}) to the vector before`]];
    if (scene.main.wiring.pre_norm) lines.push([`length of the sum = √(${inSum(before)}² + ${inSum(length)}² + 2 · ${inSum(before)} · ${inSum(length)} · ${signed(cosine)})`, ...equals(after)]);
    return lines;
  },
});

// The prediction at a token and the chosen output of it, if its parts are shown.
function logitOf(t) {
  if (scene.residual.why !== null || (!scene.insides.isPooled && predictionAt(scene) !== t)) return [];
  return [[predictionAt(scene), optionAt(scene, predictionAt(scene))]];
}

declare("logit-part", {
  sources: (at, option, n) => [ref("logit", at, option), ...(scene.insides.isPooled || n >= scene.insides.added(0).length ? [] : [ref("added", at, n), ref("token", mainStream(), at), ...unitsBehind(at, n).map((unit) => ref("unit", scene.insides.added(at)[n].layer, at, unit))])],
  lines(at, option, n) {
    const { values, constant, directions } = scene.insides.logit(at, option), parts = scene.insides.added(0), name = quoted(outputsAt(scene, at)[option]);
    if (n === parts.length) return [[`what biases add to the logit of ${name}`], ["of the output layer and of the norms", ...equals(constant)]];
    const title = [`what ${partName(parts[n])} adds to the logit of ${name}`], whole = values.reduce((sum, each) => sum + each, constant);
    const own = [`${inSum(values[n])} of ${inSum(whole)}`];
    if (scene.insides.isPooled) return [title, ["the sum over all ", `${unitsOf(scene.main)}: share · direction · vector`, ...equals(values[n])]];
    const { vector } = scene.insides.added(at)[n];
    if (!directions) return [title, [`direction · vector, direction = ${directionInWords(scene)}`, ...equals(values[n])], own];
    const terms = Array.from(directions[n], (each, k) => [each * vector[k], [`${signed(each)} · ${signed(vector[k])}`]]);
    return [title, ["direction · vector = ", ...sumParts(terms), ...equals(values[n])], [`direction: ${directionInWords(scene)}`], ...detailLines(at, n, directions[n], parts[n], values[n])];
  },
});

// In which direction a logit reads the vector that a part is added to.
function directionInWords({ main, residual: { final_norm: norm, temperature } }) {
  const row = `row of the output layer${temperature === 1 ? "" : " / temperature"}`;
  if (!main.wiring.pre_norm) return `${row}, followed back through the norms`;
  return norm === null ? row : `${row} · weight of the norm / its scale${norm === "layer" ? ", minus its mean" : ""}`;
}

// The strongest units of a feed-forward layer.
function unitsBehind(t, n) {
  const { kind, layer } = scene.insides.added(t)[n];
  return kind === "feedforward" ? scene.insides.units(layer, t)?.order ?? [] : [];
}

// What the units of a feed-forward layer, or the heads of attention, add to its part of a logit, `whole`.
function detailLines(t, n, direction, { kind, layer }, whole) {
  if (kind === "feedforward") {
    const { after, order } = scene.insides.units(layer, t);
    const terms = order.map((unit) => [after[unit] * dotOf(direction, scene.insides.weights(layer, unit).column), unit]).sort(([a], [b]) => Math.abs(b) - Math.abs(a));
    const shown = terms.slice(0, 6), rest = whole - shown.reduce((sum, [value]) => sum + value, 0);
    return [["Of its strongest units: ", ...shown.flatMap(([value, unit], at) => [at ? ", " : "", term(`unit ${unit}`, "", ref("unit", layer, t, unit)), ` ${withSignInSum(value)}`]), `; all others${scene.main.wiring.has_bias ? " and the bias" : ""} ${withSignInSum(rest)}`]];
  }
  const heads = headShares(t, direction, kind, layer);
  if (!heads) return [];
  const bias = scene.insides.outputBias(layer, kind, direction);
  return [[`By head: ${heads.map(([value, head]) => `head ${head} ${withSignInSum(value)}`).join(", ")}${bias ? `; bias of the output matrix ${withSignInSum(bias)}` : ""}`]];
}

// What each head adds: its output, mixed by its columns of the output matrix.
function headShares(t, direction, kind, layer) {
  const isOfKind = { attention: ({ asks }, n) => n === 0 && asks === mainStream(), cross_attention: ({ name }) => name === "cross" }[kind];
  const look = isOfKind && looksOf(scene).find(isOfKind);
  if (!look || !scene.insides.mixed) return null;
  const mixed = scene.insides.mixed(layer, kind, direction), found = looksOf(scene)[0].layers[layer];
  return Array.from({ length: headsOf(found) }, (_, head) => {
    const isOff = (scene.silent ?? []).some(([l, h, group]) => l === layer && h === head && (group === "cross") === (kind === "cross_attention") && group !== "source");
    const parts = headOf(look.layers[layer], head), weights = weightsAt(look, layer, head, t);
    let sum = 0;
    weights.forEach((weight, key) => { if (weight) sum += weight * dotOf(mixed.subarray(head * parts.width, (head + 1) * parts.width), vectorAt(parts.value, parts.width, key)); });
    return [isOff ? 0 : sum, head];
  }).sort(([a], [b]) => Math.abs(b) - Math.abs(a));
}

declare("logit", {
  sources: (at, option) => [...scene.insides.added(0).map((_, n) => ref("logit-part", at, option, n)), ref("logit-part", at, option, scene.insides.added(0).length)],
  lines(at, option) {
    const { values, constant, logit } = scene.insides.logit(at, option), parts = scene.insides.added(0), name = outputsAt(scene, at)[option];
    const terms = values.map((value, n) => [value, [term(signed(value), PART_COLOURS[parts[n].kind] ?? "", ref("logit-part", at, option, n)), ` ${partName(parts[n])}`]]);
    const sum = values.reduce((a, b) => a + b, constant);
    return [[`logit of ${quoted(name)}`], ["Σ = ", ...sumParts(terms, 8), ...(constant ? [` + ${signed(constant)} biases`] : []), ...equals(sum)], [`The model’s own logit: ${logit.toFixed(5)}; difference ${Math.abs(sum - logit).toExponential(0)}`]];
  },
});
