// The pictures of a model that learns: its loss, the attention of every head, and one of its numbers.

// --- the loss ---

const MOST_POINTS = 500; // of a line; more are means of neighbours

function meansOf(points) {
  const each = Math.ceil(points.length / MOST_POINTS);
  if (each === 1) return points;
  return Array.from({ length: Math.ceil(points.length / each) }, (_, n) => {
    const part = points.slice(n * each, (n + 1) * each), last = part.at(-1);
    return [last[0], part.reduce((sum, [, value]) => sum + value, 0) / part.length];
  });
}

// `marks` are [step, what changed]; `guessing` is the loss of a model that knows nothing.
function drawLoss(place, { training, heldOut, marks, guessing }) {
  place.textContent = "";
  const width = Math.max(240, place.clientWidth), height = 170;
  const svg = add(place, "svg", { width, height, role: "img", "aria-label": "loss by step" });
  const box = { left: 40, right: width - 12, top: 12, bottom: height - 40 };
  const lines = [["curve training", meansOf(training)], ["curve held-out", heldOut]];
  const values = [...lines.flatMap(([, points]) => points.map(([, value]) => value)), guessing];
  const x = scale([0, Math.max(20, training.at(-1)?.[0] ?? 0)], [box.left, box.right]), y = scale(domainOf([...values, 0]), [box.bottom, box.top]);
  drawAxes(svg, x, y, box, { x: "step" });
  add(svg, "line", { class: "guessing", x1: box.left, x2: box.right, y1: y(guessing), y2: y(guessing) });
  add(svg, "text", { class: "name", x: box.right, y: y(guessing) + 16, "text-anchor": "end" }, `guessing: ${number(guessing)}`);
  marks.forEach(([step, name], n) => {
    add(svg, "line", { class: "change", x1: x(step), x2: x(step), y1: box.top, y2: box.bottom });
    const isLate = x(step) > (box.left + box.right) / 2;
    add(svg, "text", { class: "name", x: x(step) + (isLate ? -4 : 4), y: box.bottom - 6 - 14 * (n % 4), "text-anchor": isLate ? "end" : "start" }, name);
  });
  for (const [style, points] of lines) {
    if (points.length) add(svg, "path", { class: style, d: pathOf(points.map(([step, value]) => [x(step), y(value)])) });
  }
}

// --- attention ---

// The maps of all heads for the tokens of one sequence; `choose` gets a layer and a head. Returns a
// function that paints them from a pass of the model.
function makeHeadMaps(place, model, tokens, chosen, choose) {
  place.textContent = "";
  const { num_layers: layers, num_heads: heads } = model.shape, length = tokens.length;
  const small = add(place, "div", { class: "all-heads" }), large = add(place, "div", { class: "one-head" });
  const maps = Array.from({ length: layers }, (_, layer) => {
    const row = add(small, "div", { class: "layer" });
    add(row, "span", { class: "name" }, `layer ${layer}`);
    return Array.from({ length: heads }, (_, head) => {
      const isChosen = layer === chosen.layer && head === chosen.head;
      const button = add(row, "button", { type: "button", class: isChosen ? "thumb chosen" : "thumb", "aria-pressed": isChosen, "aria-label": `layer ${layer}, head ${head}` });
      button.addEventListener("click", () => choose(layer, head));
      return add(button, "canvas", { width: length, height: length });
    });
  });
  const said = add(large, "p", { class: "pointed" }, `Layer ${chosen.layer}, head ${chosen.head}: rows look at columns.`);
  const canvas = drawMatrix(large, {
    rows: length, columns: length, value: () => 0, colour: blues, size: 15, most: Math.min(15 * length, large.clientWidth - 40),
    label: `attention of head ${chosen.head} of layer ${chosen.layer}`, rowNames: tokens, columnNames: tokens,
  });
  const masked = add(large, "p", { class: "masked-key" }, "masked: later tokens");
  let shown = null;
  canvas.addEventListener("pointermove", (event) => {
    const around = canvas.getBoundingClientRect();
    const [row, column] = [(event.clientY - around.top) / around.height, (event.clientX - around.left) / around.width]
      .map((share) => Math.max(0, Math.min(length - 1, Math.floor(share * length))));
    if (shown) said.textContent = `${quotedToken(tokens[row])} at ${row} looks at ${quotedToken(tokens[column])} at ${column}: ${shown(row, column) === null ? "masked" : percent(shown(row, column))}`;
  });
  return () => {
    const { layers: found } = model.pass;
    const isHidden = (row, column) => model.parts.mask && column > row;
    const weight = (layer, head) => (row, column) => (isHidden(row, column) ? null : found[layer].shares[(head * length + row) * length + column]);
    maps.forEach((row, layer) => row.forEach((map, head) => paintCells(map, length, length, weight(layer, head), bluesOf(1))));
    const kept = Array.from({ length: length ** 2 }, (_, n) => weight(chosen.layer, chosen.head)(Math.floor(n / length), n % length));
    shown = (row, column) => kept[row * length + column];
    paintCells(canvas, length, length, shown, bluesOf(1));
    masked.hidden = !model.parts.mask;
  };
}

const quotedToken = (token) => `“${visible(token)}”`;

// --- one number ---

// Blue for positive numbers, orange for negative ones.
const signedColour = (share) => [...(share < 0 ? [224, 112, 40] : [58, 128, 228]), 255 * Math.min(1, Math.abs(share))];

// A matrix of parameters, in which a number can be chosen: by pointer, or with the arrow keys. A tall one
// lies on its side. Returns its canvas, and a function that paints it as it is now.
function makeWeightMap(place, { name, rows, columns, values, label }, index, choose) {
  place.textContent = "";
  const isTurned = rows > columns, [tall, wide] = isTurned ? [columns, rows] : [rows, columns];
  const turned = (y, x) => (isTurned ? x * columns + y : y * columns + x), [row, column] = [Math.floor(index / columns), index % columns];
  const [y, x] = isTurned ? [column, row] : [row, column];
  const cell = Math.max(4, Math.min(12, Math.floor((place.clientWidth - 16) / wide), Math.floor(300 / tall)));
  const frame = add(place, "div", { class: "frame weights" });
  Object.assign(frame.style, { width: `${cell * wide}px`, height: `${cell * tall}px` });
  const canvas = add(frame, "canvas", { width: wide, height: tall, role: "application", tabindex: 0, "aria-label": `${name}, ${rows} rows of ${columns} numbers. ${label}. Arrow keys choose a number.` });
  const marks = add(frame, "svg", { class: "marks", viewBox: `0 0 ${wide} ${tall}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const size = Math.max(1, 8 / cell); // a mark that can be seen
  add(marks, "rect", { class: "mark", x: x + (1 - size) / 2, y: y + (1 - size) / 2, width: size, height: size });
  canvas.addEventListener("click", (event) => {
    const around = canvas.getBoundingClientRect();
    const at = (from, length, count) => Math.max(0, Math.min(count - 1, Math.floor((from / length) * count)));
    choose(turned(at(event.clientY - around.top, around.height, tall), at(event.clientX - around.left, around.width, wide)));
  });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const [down, right] = [y + move[0], x + move[1]];
    if (down >= 0 && down < tall && right >= 0 && right < wide) choose(turned(down, right));
  });
  return {
    canvas,
    paint() {
      let most = 1e-12;
      for (const each of values) most = Math.max(most, Math.abs(each));
      paintCells(canvas, tall, wide, (down, right) => values[turned(down, right)] / most, signedColour);
    },
  };
}

// How one number changed, step by step.
function drawValue(place, points) {
  place.textContent = "";
  if (points.length < 2) return;
  const width = Math.max(240, place.clientWidth), height = 170;
  const svg = add(place, "svg", { width, height, role: "img", "aria-label": "the chosen number by step" });
  const box = { left: 62, right: width - 12, top: 10, bottom: height - 40 };
  const x = scale([points[0][0], points.at(-1)[0]], [box.left, box.right]), y = scale(domainOf(points.map(([, value]) => value)), [box.bottom, box.top]);
  drawAxes(svg, x, y, box, { x: "step" });
  add(svg, "path", { class: "curve training", d: pathOf(meansOf(points).map(([step, value]) => [x(step), y(value)])) });
}

// The last step of one number, written out: forward, loss, gradient, update.
function writeStep(place, { loss, before, gradient, terms, slope, mean, square, after, rate, steps, tokens, length, meaning }) {
  place.textContent = "";
  const line = (name, ...parts) => {
    const item = add(place, "div", { class: "written" });
    add(item, "dt", {}, name);
    const text = add(item, "dd");
    for (const part of parts) add(text, "p", {}, part);
  };
  const { beta1, beta2, eps, decay } = ADAMW;
  line("forward", `w = ${exactly(before)}. ${meaning}`);
  line("loss", `L = ${exactly(loss)}: the mean of −log p(next) over ${number(tokens.length)} tokens of step ${number(steps)}.`);
  const largest = [...terms].sort((a, b) => Math.abs(b.input * b.delta) - Math.abs(a.input * a.delta)).slice(0, 3);
  const rest = gradient - largest.reduce((sum, { input, delta }) => sum + input * delta, 0), others = terms.length - largest.length;
  const product = ({ at, input, delta }) => `${quotedToken(tokens[at])} at position ${at % length} of sequence ${Math.floor(at / length) + 1}: ${input === 1 ? "" : `${exactly(input)} · ${exactly(delta)} = `}${exactly(input * delta)}`;
  line("gradient",
    terms.length ? `∂L/∂w = ${exactly(gradient)}: a sum over the tokens of what w is multiplied by, times how L depends on the result:`
      : `∂L/∂w = ${exactly(gradient)}: no token of this step used w.`,
    ...largest.map(product), ...(others > 0 ? [`and ${number(others)} smaller ones: ${exactly(rest)}`] : []),
    ...(slope === null ? [] : [`Tried out, with w a little larger and a little smaller: ${exactly(slope)}.`]));
  const start1 = 1 - beta1 ** steps, start2 = 1 - beta2 ** steps;
  line("AdamW",
    `m ← ${beta1} · m + ${round(1 - beta1)} · g = ${exactly(mean)}; corrected for its start: m / (1 − ${beta1}^${steps}) = ${exactly(mean / start1)}`,
    `v ← ${beta2} · v + ${round(1 - beta2)} · g² = ${exactly(square)}; corrected: ${exactly(square / start2)}`,
    `w ← w · (1 − ${rate} · ${decay}) − ${rate} · ${exactly(mean / start1)} / (√${exactly(square / start2)} + ${eps}) = ${exactly(after)}`);
}

const round = (value) => Number(value.toFixed(6));

// Four digits that matter, with a true minus sign.
function exactly(value) {
  const text = value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(3) : String(Number(value.toPrecision(4)));
  return text.replaceAll("-", "−");
}
