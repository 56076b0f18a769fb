// The feed-forward layer: which hidden units a token activates, and what they push for.

const SHOWN_UNITS = 12, SHOWN_PUSHES = [3, 2]; // of those it makes likelier, and less likely
const ACTIVATION_NAMES = { gelu: "GELU", gelu_tanh: "GELU (tanh)", quick_gelu: "QuickGELU", relu: "ReLU", silu: "SiLU", swiglu: "SiLU", tanh: "tanh" };
// What the matrices of the layer are multiplied by, in equations.
const feedInput = ({ pre_norm: isPre }) => (isPre ? "norm(x)" : "x");
const activationSign = (activation) => ACTIVATION_NAMES[activation].split(" ")[0]; // in equations

chapters.push({
  id: "feedforward",
  title: "Feed-forward",
  equation: ({ main, residual }) => feedEquation(main.wiring, residual.activation),
  note: ({ main, residual }) => {
    const hidden = residual.activation === "swiglu" ? "multiplies a gate, from a row of W_gate, by the product of this vector and a row of W_up" : "compares this vector with a row of W_up";
    return `After attention, the vector of every ${oneOf(main)} is on its own. A hidden unit ${hidden}; as strongly as the unit is active, its column of W_down is added to the vector.`;
  },
  isShown: (scene) => Boolean(scene.residual),
  draw(place, scene) {
    const said = add(place, "p", { class: "said" }), sides = add(place, "div", { class: "attention hidden-units" });
    const curve = addFigure(sides, { name: "Hidden units before and after the activation", of: ["layer", "token"] });
    const table = addFigure(sides, { name: "The strongest hidden units", of: ["layer", "token"] });
    add(place, "h3", {}, "One hidden unit, written out");
    const sum = addFigure(place, { name: "One hidden unit", of: ["layer", "token"], style: "wide" });
    sum.classList.add("sum");
    follow(["layer", "token", "unit"], () => {
      for (const box of [curve, table, sum]) box.textContent = "";
      const layer = layerOf(scene.main), t = state.token, units = scene.insides?.units(layer, t);
      writeUnits(said, scene, layer, t, units);
      for (const box of [curve, table, sum]) box.closest("figure").hidden = !units;
      place.querySelector("h3").hidden = !units;
      if (!units) return;
      drawCurve(curve, scene, layer, t, units);
      drawUnits(table, scene, layer, t, units);
      writeUnit(sum, scene, layer, t, units);
    });
  },
});

// The sums of the layer, with its norm before it or after it.
function feedEquation(wiring, activation) {
  const { pre_norm: isPre, has_bias: hasBias } = wiring, x = feedInput(wiring), bias = hasBias ? " + b" : "", name = activationSign(activation);
  const up = `W_up · ${x}${bias}`, hidden = activation === "swiglu" ? `(${name}(W_gate · ${x}${bias}) ⊙ (${up}))` : `${name}(${up})`;
  const sum = `x + W_down · ${hidden}${bias}`;
  return [isPre ? `x ← ${sum}` : `x ← norm(${sum})`];
}

// A unit is named by its number in the layer; the state holds its number among those of all layers.
const unitState = (layer, unit, { before }) => layer * before.length + unit;
function chosenUnit(layer, units) {
  const unit = state.unit === null ? -1 : state.unit - layer * units.before.length;
  return unit >= 0 && unit < units.before.length ? unit : units.order[0];
}

// What the activation function reads: the gate, if there is one.
const readByActivation = ({ before, gates }) => gates ?? before;

function writeUnits(said, scene, layer, t, units) {
  const where = ["In layer ", layerPick(scene.main), ", at ", tokenPick(scene.main, "token", t, "token", "query")];
  if (!units) {
    const only = scene.insides?.unitTokens[0];
    const why = !scene.insides ? "the model of this page is still being unpacked" : only === undefined ? "hidden units of 8-bit weights are not shown" : `the page has the hidden units of a long text or a large model only at ${quotedAmong(scene.main.tokens, only)}`;
    return writeProse(said, [...where, `: ${why}.`]);
  }
  const active = readByActivation(units).reduce((sum, each) => sum + (each > 0), 0), count = units.before.length;
  const name = units.gates ? "have an open gate" : "are active";
  writeProse(said, [...where, `, ${number(active)} of ${number(count)} hidden units ${name} (${percent(active / count, 0)}): ${units.gates ? "their gate is" : "they are"} positive before ${ACTIVATION_NAMES[scene.residual.activation]}.`]);
}

// --- the activation function, with the units of this token on it ---

function drawCurve(box, scene, layer, t, units) {
  const { activation } = scene.residual, act = ACTIVATIONS[activation], inputs = readByActivation(units);
  const width = Math.min(400, box.clientWidth || 400), height = 334, frame = { left: 44, right: width - 8, top: 26, bottom: height - 44 };
  const svg = add(box, "svg", { width, height, role: "group", "aria-label": "activation function, with the strongest units as points" });
  const reach = [Math.min(-3, ...inputs), Math.max(3, ...inputs)];
  const x = scale(domainOf(reach), [frame.left, frame.right]), y = scale(domainOf([...reach, -0.2].map(act).concat(-0.3)), [frame.bottom, frame.top]);
  drawCounts(svg, inputs, x, frame);
  drawAxes(svg, x, y, frame, { x: `${units.gates ? "gate" : "hidden unit"} before the activation`, y: "after the activation", every: 36 });
  const steps = Array.from({ length: 121 }, (_, n) => x.domain[0] + ((x.domain[1] - x.domain[0]) * n) / 120);
  add(svg, "path", { class: "curve", d: pathOf(steps.map((each) => [rounded(x(each)), rounded(y(act(each)))])) });
  const at = (unit) => [rounded(x(inputs[unit])), rounded(y(act(inputs[unit])))];
  add(svg, "path", { class: "all-units", d: Array.from(inputs, (_, unit) => `M${at(unit).join(" ")}h0`).join("") });
  const chosen = chosenUnit(layer, units), shown = [...new Set([...units.order, chosen])];
  const points = shown.map((unit) => {
    const [cx, cy] = at(unit), group = add(svg, "g", { class: "unit-point", role: "button", "data-acts": "", tabindex: -1, "aria-label": `hidden unit ${unit}` });
    add(group, "circle", { cx, cy, r: unit === chosen ? 6 : 4 });
    group.classList.toggle("chosen", unit === chosen);
    pressable(group, () => choose({ unit: unitState(layer, unit, units) }));
    return means(group, "unit", layer, t, unit);
  });
  rove(svg, points, 1, shown.indexOf(chosen));
  setCaption(box, `${ACTIVATION_NAMES[activation]}: every dot is a hidden unit, the large ones are the strongest${units.gates ? `; what leaves the gate multiplies W_up · ${feedInput(scene.main.wiring)}` : ""}. Grey: how many units there are at each place.`);
  describe(box, `${ACTIVATION_NAMES[activation]} of the strongest units: ${units.order.map((unit) => `${unit}: ${inSum(inputs[unit])} → ${inSum(act(inputs[unit]))}`).join("; ")}`);
}

// How many units there are along the axis, as grey bars.
function drawCounts(svg, inputs, x, { left, right, top, bottom }) {
  const bins = 32, width = (right - left) / bins, counts = new Array(bins).fill(0);
  for (const each of inputs) counts[Math.min(bins - 1, Math.max(0, Math.floor((x(each) - left) / width)))] += 1;
  const most = Math.max(...counts), group = add(svg, "g", { class: "counts" });
  counts.forEach((count, n) => {
    const size = 0.4 * (bottom - top) * (count / most);
    if (count) add(group, "rect", { x: rounded(left + n * width + 0.5), y: rounded(bottom - size), width: rounded(width - 1), height: rounded(size) });
  });
}

// --- the strongest units ---

function drawUnits(box, scene, layer, t, units) {
  const { why } = scene.residual, chosen = chosenUnit(layer, units);
  const table = add(add(box, "div", { class: "scroll" }), "table", { class: "units" });
  const numbersBefore = units.gates ? 4 : 3; // columns
  const names = ["unit", ...(units.gates ? ["gate", `W_up · ${feedInput(scene.main.wiring)}`] : ["before"]), "after", "length added", ...(why === null ? ["likelier", "less likely"] : [])];
  const head = add(add(table, "thead"), "tr"), body = add(table, "tbody");
  names.forEach((name, n) => add(head, "th", { scope: "col", class: n >= numbersBefore ? "left" : "" }, name));
  const lengthOfUnit = (unit) => Math.abs(units.after[unit]) * units.lengths[unit], most = lengthOfUnit(units.order[0]) || 1;
  const rows = units.order.map((unit) => {
    const row = means(add(body, "tr", { "data-acts": "", class: unit === chosen ? "chosen" : "" }), "unit", layer, t, unit);
    add(row, "th", { scope: "row" }, String(unit));
    for (const each of units.gates ? [units.gates, units.before, units.after] : [units.before, units.after]) add(row, "td", {}, decimals(each[unit]));
    const bar = add(add(row, "td", { class: "bar-cell" }), "span", { class: "bar-line" });
    add(bar, "span", { class: "bar-fill" }).style.width = `${rounded((60 * lengthOfUnit(unit)) / most)}%`;
    add(bar, "span", {}, inSum(lengthOfUnit(unit)));
    const cells = why === null ? [add(row, "td", { class: "pushes" }), add(row, "td", { class: "pushes" })] : [];
    pressable(row, () => choose({ unit: unitState(layer, unit, units) }));
    if (cells.length) later(() => { if (row.isConnected) fillPushes(cells, scene.insides.pushed(layer, t, unit)); });
    return row;
  });
  rove(body, rows, 1, Math.max(0, units.order.indexOf(chosen)));
  const total = Math.sqrt(units.after.reduce((sum, each, unit) => sum + (each * units.lengths[unit]) ** 2, 0));
  const share = Math.sqrt(units.order.reduce((sum, unit) => sum + lengthOfUnit(unit) ** 2, 0)) / (total || 1);
  const meant = why === null ? ` Likelier, less likely: the ${scene.labels?.length ? "labels" : "tokens"} whose logits the unit raises and lowers most, directly, with the scale of later norms held.` : ` What a unit pushes for is not shown: ${why}.`;
  setCaption(box, `The ${units.order.length} units that add most, by activation × length of their column of W_down (${percent(share ** 2, 0)} of the sum of squares of all units).${meant}`);
}

const decimals = (value) => value.toFixed(2).replace("-", "−"); // activations of a column

function fillPushes(cells, sides) {
  cells.forEach((cell, n) => sides[n].slice(0, SHOWN_PUSHES[n]).forEach(([name, value]) => {
    if (n ? value >= 0 : value <= 0) return; // it raises, or lowers, no more of them
    const push = add(cell, "span", { class: n ? "push down" : "push", dir: "auto" }, short(visible(name), 10));
    add(push, "span", { class: "at" }, ` ${withSign(value, Number(Math.abs(value).toPrecision(2)))}`);
  }));
}

// --- one unit, step by step ---

function writeUnit(box, scene, layer, t, units) {
  const unit = chosenUnit(layer, units), weights = scene.insides.weights(layer, unit), place = [layer, t, unit];
  const { activation } = scene.residual, { before, gates, after, input } = units;
  const name = quotedAmong(scene.main.tokens, t), fact = activationSign(activation);
  if (weights) {
    addStep(box, "query", `${feedInput(scene.main.wiring)}, the vector of ${name}`, input, ["feed-input", layer, t]);
    const rows = gates ? [["W_gate", "gate-row", weights.gate, gates], ["W_up", "up-row", weights.up, before]] : [["W_up", "up-row", weights.up, before]];
    for (const [matrix, kind, { row, bias }, values] of rows) {
      addStep(box, "key", `row ${unit} of ${matrix}`, row, [kind, ...place]);
      addStep(box, "", "products, number by number", row.map((each, k) => each * input[k]), [kind, ...place]);
      addLine(box, [`their sum${bias ? ` + bias ${signed(bias)}` : ""} = `, term(inSum(values[unit]), "score", ref("unit", ...place))]);
    }
  }
  const first = readByActivation(units)[unit], opened = ACTIVATIONS[activation](first);
  const gated = gates ? ` · ${signed(before[unit])} = ${inSum(opened)} · ${signed(before[unit])}` : "";
  addLine(box, [`Unit ${unit}: ${fact}(${inSum(first)})${gated} = `, term(inSum(after[unit]), "", ref("unit", ...place)), after[unit] ? "" : ": it adds nothing"]);
  setCaption(box, weights ? "Each strip is a vector, a cell a number: blue is positive, orange negative, and the strongest colour is the largest number of the strip."
    : "Its row of W_up and its column of W_down are not written out: this page does not carry the weights of the model.");
  if (weights) addStep(box, "output", `what it adds to x: ${inSum(after[unit])} · column ${unit} of W_down`, weights.column.map((each) => after[unit] * each), ["unit-adds", ...place]);
}

// --- where these numbers come from ---

declare("feed-input", {
  sources: (layer, t) => [ref("token", mainStream(), t), ...partsBefore(layer, t)],
  lines(layer, t, k) {
    const { input } = scene.insides.units(layer, t), norm = scene.main.wiring.pre_norm ? ", normalised" : "";
    const title = `${k === "*" ? "" : `number ${k} of `}what the feed-forward layer ${layer} reads at ${tokenAt(mainStream(), t)}`;
    return [[title], [`the vector after attention${norm}`, ...(k === "*" ? [` (${input.length} numbers)`] : equals(input[k]))]];
  },
});

for (const [kind, matrix] of [["up-row", "W_up"], ["gate-row", "W_gate"]]) {
  declare(kind, {
    sources: (layer, t, unit, k) => [ref("unit", layer, t, unit), ref("feed-input", layer, t, k)],
    lines(layer, t, unit, k) {
      const { input } = scene.insides.units(layer, t), { row } = scene.insides.weights(layer, unit)[kind === "up-row" ? "up" : "gate"];
      const title = [`row ${unit} of ${matrix} in layer ${layer}`];
      if (k === "*") return [title, [`${row.length} weights, the same for every token`]];
      return [[`number ${k} of `, ...title], [`weight ${inSum(row[k])}; times number ${k} of the vector: ${signed(row[k])} · `, term(signed(input[k]), "query", ref("feed-input", layer, t, k)), ...equals(row[k] * input[k])]];
    },
  });
}

declare("unit-adds", {
  sources: (layer, t, unit) => [ref("unit", layer, t, unit), ref("added", t, partNumber("feedforward", layer))],
  lines(layer, t, unit, k) {
    const { after } = scene.insides.units(layer, t), { column } = scene.insides.weights(layer, unit);
    const activation = term(signed(after[unit]), "", ref("unit", layer, t, unit));
    if (k === "*") return [[`what hidden unit ${unit} adds to ${tokenAt(mainStream(), t)} · layer ${layer}`], [activation, ` · column ${unit} of W_down`]];
    return [[`number ${k} of what hidden unit ${unit} adds · layer ${layer}`], [activation, ` · ${signed(column[k])}`, ...equals(after[unit] * column[k])]];
  },
});

declare("unit", {
  sources: (layer, t, unit) => [
    ref("token", mainStream(), t), ref("feed-input", layer, t, "*"), ref("up-row", layer, t, unit, "*"), ref("gate-row", layer, t, unit, "*"), ref("unit-adds", layer, t, unit, "*"),
  ],
  lines(layer, t, unit) {
    const units = scene.insides.units(layer, t), weights = scene.insides.weights(layer, unit), { activation } = scene.residual;
    const { before, gates, after, lengths, input } = units, fact = activationSign(activation), first = readByActivation(units)[unit];
    const product = (matrix, part, value) => {
      if (!part) return [`row ${unit} of ${matrix} · ${feedInput(scene.main.wiring)}`, ...equals(value), " (this page does not carry the weights of the model)"];
      const terms = Array.from(part.row, (weight, k) => [weight * input[k], [`${signed(weight)} · `, term(signed(input[k]), "query", ref("feed-input", layer, t, k))]]);
      return [`row ${unit} of ${matrix} · ${feedInput(scene.main.wiring)} = `, ...sumParts(terms), ...(part.bias ? [` + bias ${signed(part.bias)}`] : []), ...equals(value)];
    };
    const opened = ACTIVATIONS[activation](first);
    return [
      [`hidden unit ${unit} at `, term(tokenAt(mainStream(), t), "query"), ` · layer ${layer}`],
      ...(gates ? [product("W_gate", weights?.gate, gates[unit])] : []), product("W_up", weights?.up, before[unit]),
      [`${fact}(${inSum(first)})${gates ? ` · ${signed(before[unit])} = ${inSum(opened)} · ${signed(before[unit])}` : ""}`, ...equals(after[unit]), `; its column of W_down has length ${inSum(lengths[unit])}, so it adds ${inSum(Math.abs(after[unit]) * lengths[unit])}`],
      ...pushLines(layer, t, unit),
    ];
  },
});

function pushLines(layer, t, unit) {
  const sides = scene.residual.why === null ? scene.insides.pushed(layer, t, unit) : null;
  if (!sides) return [];
  return [["To logits it adds ", ...sides.flatMap((side, n) => [n ? " … " : "", side.map(([name, value]) => `${quoted(name)} ${withSignInSum(value)}`).join(", ")])]];
}
