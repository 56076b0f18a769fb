// Draws an alignment twice, as lines between words and as a heat map, and writes it as a table.

const data = JSON.parse(document.getElementById("data").textContent);
const curves = []; // one list for each row
const words = []; // of the output, beside the curves
const marks = []; // behind the words of the source
const state = { layer: data.chosen[0], head: data.chosen[1], locked: 0, least: 0 };
let shares = data.alignment; // one row for each word of the output
let map; // the heat map

// The mean over the chosen layer and head, or over all of them.
function chosenShares() {
  const isChosen = (number, wanted) => wanted === null || number === wanted;
  const picked = data.heads
    .filter((_, layer) => isChosen(layer, state.layer))
    .flatMap((heads) => heads.filter((_, head) => isChosen(head, state.head)));
  return picked[0].map((row, t) => row.map((_, s) => {
    return picked.reduce((sum, each) => sum + each[t][s], 0) / picked.length;
  }));
}

// "the attended to: die 83.0%, das 9.1%": the few that matter.
function said(row) {
  const order = shares[row].map((share, column) => ({ share, column }));
  const best = order.sort((a, b) => b.share - a.share).slice(0, 4);
  const parts = best
    .filter(({ share }, place) => place === 0 || share >= 0.01)
    .map(({ share, column }) => `${isolated(data.source_labels[column])} ${percent(share)}`);
  return `${isolated(data.target_labels[row])} attended to: ${parts.join(", ")}`;
}

// --- the words of both sides, with curves between them ---

const GAP = 14, HIGH = 28, BETWEEN = 140;

function addWord(svg, label, decorate) {
  const group = add(svg, "g");
  const box = add(group, "rect", { class: "frame", height: HIGH, rx: 5 });
  const text = add(group, "text", { "text-anchor": "middle" }, short(label));
  add(group, "title", {}, label);
  decorate(group, box);
  return { group, text, wide: Math.max(text.getComputedTextLength(), 8) + 10 };
}

function moveWord({ group, text, wide }, left, top) {
  text.setAttribute("x", left + wide / 2);
  text.setAttribute("y", top + 19);
  for (const box of group.getElementsByTagName("rect")) {
    box.setAttribute("x", left);
    box.setAttribute("y", top);
    box.setAttribute("width", wide);
  }
}

const lengthOf = (placed) => placed.reduce((sum, { wide }) => sum + wide + GAP, -GAP);

// Side by side; a language that is written from right to left begins at the right. Returns where
// the curves of each word end.
function inLine(placed, labels, total, top, edge) {
  const inOrder = isFromRight(labels.join("")) ? [...placed].reverse() : placed;
  let left = (total - lengthOf(placed)) / 2 + 2;
  for (const word of inOrder) {
    moveWord(word, left, top);
    word.end = [left + word.wide / 2, edge];
    left += word.wide + GAP;
  }
}

// One below the other: sentences of any length fit on any screen.
function inColumn(placed, edge, isLeft, top) {
  placed.forEach((word, number) => {
    const y = top + number * (HIGH - 2);
    moveWord(word, isLeft ? edge - word.wide : edge, y);
    word.end = [edge, y + HIGH / 2];
  });
}

function drawLines() {
  const svg = document.getElementById("lines");
  const layer = add(svg, "g");
  const source = data.source_labels.map((label) => addWord(svg, label, (group, box) => {
    box.setAttribute("class", "behind");
    marks.push(box);
    group.setAttribute("aria-hidden", "true");
  }));
  const target = data.target_labels.map((label, row) => addWord(svg, label, (group) => {
    group.setAttribute("class", "word");
    group.setAttribute("role", "img");
    group.setAttribute("tabindex", row === 0 ? 0 : -1);
    react(group, row);
    words.push(group);
  }));
  const total = Math.max(lengthOf(source), lengthOf(target));
  const room = document.getElementById("room").clientWidth || Infinity;
  const isColumn = total + 4 > room;
  const name = (text, x, y, anchor) => add(svg, "text", { class: "name", x, y, "text-anchor": anchor }, text);
  if (isColumn) {
    const widest = (placed) => Math.max(...placed.map(({ wide }) => wide));
    const left = Math.max(widest(source), 60) + 2, right = left + Math.min(BETWEEN, room / 3);
    inColumn(source, left, true, 26);
    inColumn(target, right, false, 26);
    name("source", left - 6, 14, "end");
    name("translation", right + 6, 14, "start");
    svg.setAttribute("width", right + Math.max(widest(target), 90) + 4);
    svg.setAttribute("height", 34 + (HIGH - 2) * Math.max(source.length, target.length));
  } else {
    inLine(source, data.source_labels, total, 24, 24 + HIGH);
    inLine(target, data.target_labels, total, 24 + HIGH + BETWEEN, 24 + HIGH + BETWEEN);
    name("source", 2, 14, "start");
    name("translation", 2, 24 + 2 * HIGH + BETWEEN + 18, "start");
    svg.setAttribute("width", total + 4);
    svg.setAttribute("height", 24 + 2 * HIGH + BETWEEN + 26);
  }
  return { layer, source, target, isColumn };
}

function curveBetween([x1, y1], [x2, y2], isColumn) {
  const x = (x1 + x2) / 2, y = (y1 + y2) / 2;
  const bend = isColumn ? `${x} ${y1} ${x} ${y2}` : `${x1} ${y} ${x2} ${y}`;
  return `M${x1} ${y1} C${bend} ${x2} ${y2}`;
}

// Weak lines are left out: there are many, and each word's strongest is always drawn.
function drawCurves({ layer, source, target, isColumn }) {
  layer.textContent = "";
  curves.length = 0;
  shares.forEach((row, number) => {
    const strongest = Math.max(...row);
    const drawn = row.map((share, column) => {
      if (share < state.least && share < strongest) return null;
      const path = curveBetween(target[number].end, source[column].end, isColumn);
      const strength = { "stroke-width": 1 + 5 * share, "stroke-opacity": 0.2 + 0.8 * share };
      return add(layer, "path", { class: "curve", d: path, ...strength });
    });
    curves.push(drawn.filter((curve) => curve !== null));
  });
}

// --- one word of the output is chosen, in both pictures ---

function choose(row) {
  document.body.classList.toggle("choosing", true);
  words.forEach((word, number) => word.classList.toggle("chosen", number === row));
  map.rows.forEach((group, number) => group.classList.toggle("chosen", number === row));
  curves.forEach((some, number) => {
    for (const curve of some) curve.classList.toggle("chosen", number === row);
  });
  marks.forEach((mark, column) => {
    mark.style.opacity = 0.55 * shares[row][column];
  });
  document.getElementById("said").textContent = said(row);
}

// Pointing shows a word for a moment; a click or the keyboard keeps it.
function react(group, row) {
  const keep = () => {
    state.locked = row;
    choose(row);
  };
  group.addEventListener("pointerenter", () => choose(row));
  group.addEventListener("pointerleave", () => choose(state.locked));
  group.addEventListener("click", keep);
  group.addEventListener("focus", keep);
  group.addEventListener("keydown", (event) => {
    const last = words.length - 1;
    const goal = {
      ArrowRight: Math.min(row + 1, last),
      ArrowDown: Math.min(row + 1, last),
      ArrowLeft: Math.max(row - 1, 0),
      ArrowUp: Math.max(row - 1, 0),
      Home: 0,
      End: last,
    }[event.key];
    if (goal === undefined) return;
    event.preventDefault();
    words.forEach((word, number) => word.setAttribute("tabindex", number === goal ? 0 : -1));
    words[goal].focus();
  });
}

// --- the same in words and numbers ---

function writeTable() {
  const table = document.getElementById("table");
  table.textContent = "";
  add(table, "caption", {}, "Share of attention; each row sums to 100%.");
  const head = add(add(table, "thead"), "tr");
  add(head, "td"); // the corner
  for (const label of data.source_labels) add(head, "th", { scope: "col", dir: "auto" }, label);
  const body = add(table, "tbody");
  shares.forEach((row, number) => {
    const line = add(body, "tr");
    add(line, "th", { scope: "row", dir: "auto" }, data.target_labels[number]);
    for (const share of row) add(line, "td", {}, percent(share));
  });
}

// --- what can be chosen ---

function addControls(changed, thinned) {
  const place = document.getElementById("controls");
  const choices = (count, name) => [["", "mean of all"], ...Array.from({ length: count }, (_, n) => [String(n), `${name} ${n}`])];
  const wanted = (value) => (value === "" ? null : Number(value));
  const given = (value) => (value === null ? "" : String(value));
  for (const [name, count] of [["layer", data.heads?.length], ["head", data.heads?.[0].length]]) {
    if (!(count > 1)) continue;
    addChoice(place, name === "layer" ? "Layer" : "Head", choices(count, name), given(state[name]), (value) => {
      state[name] = wanted(value);
      shares = chosenShares();
      changed();
    });
  }
  const range = { type: "range", min: 0, max: 50, step: 1, value: Math.round(100 * state.least) };
  const slider = addControl(place, "Hide lines below", range, (input) => {
    state.least = Number(input.value) / 100;
    limit.textContent = percent(state.least, 0);
    thinned();
  });
  const limit = add(place, "output", {}, percent(state.least, 0));
  return slider;
}

function paint() {
  const largest = Math.max(0.01, ...shares.flat());
  paintTiles(map.tiles, shares, data.source_labels, largest);
  document.getElementById("largest").textContent = percent(largest, 0);
  words.forEach((word, row) => word.setAttribute("aria-label", said(row)));
  drawCurves(lines);
  writeTable();
  choose(state.locked);
}

document.title = data.title;
document.getElementById("title").textContent = data.title;
document.getElementById("about").textContent = data.about;
addThemeButton(document.getElementById("top"));
state.least = Math.max(data.source_labels.length, data.target_labels.length) > 12 ? 0.15 : 0.05;
const lines = drawLines();
const names = { rows: "translation", columns: "source" };
map = drawHeatMap(document.getElementById("map"), data.target_labels, data.source_labels, shares, names);
map.rows.forEach(react);
addControls(paint, () => {
  drawCurves(lines);
  choose(state.locked);
});
paint();
