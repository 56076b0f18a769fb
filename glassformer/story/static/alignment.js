// Draws an alignment twice, as lines between words and as a heat map, and writes it as a table.
// All text of the model enters the page by textContent, so that none of it can be markup.

const data = JSON.parse(document.getElementById("data").textContent);
const shares = data.alignment; // one row for each word of the output
const largest = Math.max(0.01, ...shares.flat());
const curves = []; // one list for each row
const rows = []; // of the heat map
const words = []; // of the output, below the curves
const marks = []; // behind the words of the source

function add(parent, name, attributes = {}, text = null) {
  const element = document.createElementNS(parent.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  parent.append(element);
  return element;
}

const percent = (share) => `${(100 * share).toFixed(1)}%`;

function short(label) {
  const letters = Array.from(label); // whole characters, not halves of them
  if (letters.length <= 24) return label;
  return `${letters.slice(0, 11).join("")}…${letters.slice(-11).join("")}`;
}

// A name in a sentence keeps its direction of writing to itself.
const isolated = (label) => `\u2068${short(label)}\u2069`;

// "the attended to: die 83.0%, das 9.1%": the few that matter.
function said(row) {
  const order = shares[row].map((share, column) => ({ share, column }));
  const best = order.sort((a, b) => b.share - a.share).slice(0, 4);
  const parts = best
    .filter(({ share }, place) => place === 0 || share >= 0.01)
    .map(({ share, column }) => `${isolated(data.source_labels[column])} ${percent(share)}`);
  return `${isolated(data.target_labels[row])} attended to: ${parts.join(", ")}`;
}

// --- two lines of words, with curves between them ---

const GAP = 14, HIGH = 28, SOURCE_LINE = 4, TARGET_LINE = 172;

// Places words side by side; a language that is written from right to left begins at the right.
function line(svg, labels, top, decorate) {
  const placed = labels.map((label, place) => {
    const group = add(svg, "g");
    const box = add(group, "rect", { class: "frame", height: HIGH, y: top, rx: 5 });
    const text = add(group, "text", { y: top + 19, "text-anchor": "middle" }, short(label));
    add(group, "title", {}, label);
    const wide = Math.max(text.getComputedTextLength(), 8) + 10;
    decorate(group, box, place);
    return { group, text, wide };
  });
  const letters = labels.join("");
  const fromRight = letters.match(/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/g) ?? [];
  const inOrder = 2 * fromRight.length > letters.length ? [...placed].reverse() : placed;
  let left = 0;
  for (const word of inOrder) {
    word.left = left;
    left += word.wide + GAP;
  }
  return { placed, wide: left - GAP };
}

// Both lines are centred; only now is it known how wide the picture is.
function settle({ placed, wide }, total) {
  for (const word of placed) {
    const left = word.left + (total - wide) / 2 + 2;
    word.middle = left + word.wide / 2;
    word.text.setAttribute("x", word.middle);
    for (const box of word.group.getElementsByTagName("rect")) {
      box.setAttribute("x", left);
      box.setAttribute("width", word.wide);
    }
  }
}

function drawLines() {
  const svg = document.getElementById("lines");
  const layer = add(svg, "g");
  const source = line(svg, data.source_labels, SOURCE_LINE, (group, box) => {
    box.setAttribute("class", "behind");
    marks.push(box);
    group.setAttribute("aria-hidden", "true");
  });
  const target = line(svg, data.target_labels, TARGET_LINE, (group, box, row) => {
    group.setAttribute("class", "word");
    group.setAttribute("role", "img");
    group.setAttribute("tabindex", row === 0 ? 0 : -1);
    group.setAttribute("aria-label", said(row));
    react(group, row);
    words.push(group);
  });
  const total = Math.max(source.wide, target.wide);
  settle(source, total);
  settle(target, total);
  svg.setAttribute("width", total + 4);
  svg.setAttribute("height", TARGET_LINE + HIGH + 4);
  shares.forEach((row, number) => {
    const from = target.placed[number].middle;
    const enough = Math.max(...row) / 12; // fainter ones could not be seen, and there are many
    const drawn = row.map((share, column) => {
      if (share < enough) return null;
      const to = source.placed[column].middle;
      const path = `M${from} ${TARGET_LINE} C${from} 100 ${to} 100 ${to} ${SOURCE_LINE + HIGH}`;
      const strength = { "stroke-width": 1 + 5 * share, "stroke-opacity": 0.2 + 0.8 * share };
      return add(layer, "path", { class: "curve", d: path, ...strength });
    });
    curves.push(drawn.filter((curve) => curve !== null));
  });
}

// --- the heat map ---

function drawMap() {
  const svg = document.getElementById("map");
  const cell = shares.length > 30 || data.source_labels.length > 30 ? 20 : 30;
  const columns = data.source_labels.map((label) => add(svg, "text", {}, short(label)));
  const widest = (texts) => Math.max(8, ...texts.map((text) => text.getComputedTextLength()));
  const top = widest(columns) * 0.72 + 16; // labels stand at 45 degrees
  const groups = data.target_labels.map((label, row) => {
    const group = add(svg, "g", { class: "row" });
    react(group, row);
    rows.push(group);
    return { group, text: add(group, "text", { "text-anchor": "end" }, short(label)) };
  });
  const left = widest(groups.map(({ text }) => text)) + 10;
  columns.forEach((text, column) => {
    const x = left + cell * (column + 0.5);
    text.setAttribute("transform", `translate(${x} ${top - 6}) rotate(-45)`);
  });
  groups.forEach(({ group, text }, row) => {
    const y = top + cell * row;
    text.setAttribute("x", left - 8);
    text.setAttribute("y", y + cell / 2 + 5);
    shares[row].forEach((share, column) => {
      const place = { x: left + cell * column + 1, y: y + 1, width: cell - 2, height: cell - 2 };
      add(group, "rect", { class: "tile", ...place });
      const tile = add(group, "rect", { class: "share", ...place, "fill-opacity": share / largest });
      add(tile, "title", {}, `${data.source_labels[column]}: ${percent(share)}`);
    });
  });
  svg.setAttribute("width", left + cell * columns.length + top);
  svg.setAttribute("height", top + cell * groups.length + 4);
}

// --- one word of the output is chosen, in both pictures ---

function choose(row) {
  document.body.classList.toggle("choosing", row !== null);
  words.forEach((word, number) => word.classList.toggle("chosen", number === row));
  rows.forEach((group, number) => group.classList.toggle("chosen", number === row));
  curves.forEach((some, number) => {
    for (const curve of some) curve.classList.toggle("chosen", number === row);
  });
  marks.forEach((mark, column) => {
    mark.style.opacity = row === null ? 0 : 0.55 * shares[row][column];
  });
  document.getElementById("said").textContent = row === null ? "" : said(row);
}

function focused() {
  const row = words.indexOf(document.activeElement);
  return row < 0 ? null : row;
}

function react(group, row) {
  group.addEventListener("pointerenter", () => choose(row));
  group.addEventListener("pointerleave", () => choose(focused()));
  group.addEventListener("focus", () => choose(row));
  group.addEventListener("blur", () => choose(null));
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

if (data.title !== null) {
  document.title = data.title;
  document.getElementById("title").textContent = data.title;
}
drawLines();
drawMap();
writeTable();
