// Where numbers come from. An operation is declared once: what one of its numbers was computed from,
// and how that is written out. An element that shows such a number says which one it is; pointing at
// it, or reaching it by keyboard, lights its sources wherever they are drawn and writes out the sum.
//
//   declare("weight", { sources: (stream, layer, …) => [ref("score", …)], lines: (…) => [[…]] });
//   means(element, "weight", stream, layer, head, query, key);
//
// `lines` is null for a number that is no longer there, such as one of a model that was changed again.
//
// A click keeps the sum on the page, unless the element has data-acts: then a click has a meaning of
// its own. A reference is a name and a place, "weight/0/2/1/5/3"; a "*" at its end stands for a whole vector.

const operations = new Map();
const declare = (name, operation) => operations.set(name, operation);
const ref = (name, ...place) => [name, ...place].join("/");

function means(element, name, ...place) {
  element.setAttribute("data-of", ref(name, ...place));
  return element;
}

function readRef(of) {
  const [name, ...place] = of.split("/");
  return { operation: operations.get(name), place: place.map((each) => (each === "*" ? each : Number(each))) };
}

// A part of a line: a text with the colour of its kind, and the number it stands for, if any.
const term = (text, kind = "", of = null) => ({ text, kind, of });

// a + b + …, the largest first; what is left out is added up. `terms` are [value, parts].
function sumParts(terms, most = 4) {
  const order = [...terms].sort(([a], [b]) => Math.abs(b) - Math.abs(a));
  const parts = order.slice(0, most).flatMap(([, each], n) => (n ? [" + ", ...each] : each));
  const rest = order.slice(most);
  if (!rest.length) return parts;
  const sum = rest.reduce((total, [value]) => total + value, 0);
  return [...parts, ` + ${signed(sum)} from ${rest.length} smaller`];
}

const signed = (value) => (value < 0 ? `(${inSum(value)})` : inSum(value));
// A number in a sum: three significant digits, with a real minus sign.
const inSum = (value) => {
  const text = Math.abs(value) >= 1000 || (value !== 0 && Math.abs(value) < 1e-3)
    ? value.toExponential(1) : String(Number(value.toPrecision(3)));
  return text.replace("-", "−");
};
const withSignInSum = (value) => withSign(value, inSum(Math.abs(value)));

// --- pictures of many numbers on one canvas ---

const regions = new WeakMap();

// `at(row, column)` is the reference of a cell, `spots(of)` the [row, column, rows, columns] that show
// a reference, if any.
function meansCells(canvas, { rows, columns, at, spots, pick = null }) {
  regions.set(canvas, { rows, columns, at, spots, pick, place: [0, 0] });
  canvas.setAttribute("data-region", "");
  if (pick) canvas.setAttribute("data-acts", "");
}

function cellUnder(canvas, event) {
  const { rows, columns } = regions.get(canvas), box = canvas.getBoundingClientRect();
  const within = (part, count) => Math.min(count - 1, Math.max(0, Math.floor(part * count)));
  return [within((event.clientY - box.top) / box.height, rows), within((event.clientX - box.left) / box.width, columns)];
}

// --- looking ---

const looking = { of: null, isLocked: false, trail: [], wait: null };

function panel() {
  return document.getElementById("sum");
}

// Shows what a number is and where it comes from, until `rest` is called.
function look(of, isLocked = false, isHigh = false) {
  clearTimeout(looking.wait);
  if (looking.of === of && looking.isLocked === isLocked) return;
  const { operation, place } = readRef(of);
  if (!operation) return;
  const lines = operation.lines(...place);
  if (!lines) return void closeSum();
  Object.assign(looking, { of, isLocked });
  light([of, ...operation.sources(...place)], of);
  writeSum(lines);
  panel().classList.toggle("locked", isLocked);
  panel().classList.toggle("high", isHigh);
}

function rest(delay = 0) {
  clearTimeout(looking.wait);
  if (!looking.isLocked) looking.wait = setTimeout(closeSum, delay);
}

function closeSum() {
  clearTimeout(looking.wait);
  Object.assign(looking, { of: null, isLocked: false, trail: [] });
  light([], null);
  panel().hidden = true;
}

function unlock() {
  Object.assign(looking, { isLocked: false, trail: [] });
  rest();
}

function light(refs, own) {
  const wanted = new Set(refs);
  for (const each of document.querySelectorAll("[data-of]")) {
    const of = each.getAttribute("data-of");
    if (each.classList.contains("lit") !== wanted.has(of)) each.classList.toggle("lit");
    each.classList.toggle("looked-at", of === own && own !== null);
  }
  for (const canvas of document.querySelectorAll("[data-region]")) {
    const over = canvas.parentElement.querySelector(".marks");
    over.textContent = "";
    for (const each of wanted) {
      const spot = regions.get(canvas).spots(each);
      if (!spot) continue;
      const [y, x, height, width] = spot;
      add(over, "rect", { class: each === own ? "mark own" : "mark", x, y, width, height });
    }
  }
}

function writeSum(lines) {
  const box = panel();
  box.hidden = false;
  box.textContent = "";
  lines.forEach((parts, n) => {
    const line = add(box, "p", { class: n ? "sum-line" : "sum-name" });
    for (const part of parts) {
      if (typeof part === "string") line.append(part);
      else addTerm(line, part);
    }
  });
  const isDeep = looking.trail.length > 0;
  const foot = add(box, "p", { class: "sum-foot" }, looking.isLocked ? "" : "Click to keep this; click a number in it to see where that comes from.");
  if (isDeep) addAction(foot, "Back", () => look(looking.trail.pop(), true));
  if (looking.isLocked) addAction(foot, "Close (Esc)", unlock);
}

function addAction(parent, label, act) {
  const button = add(parent, "button", { type: "button", class: "quiet" }, label);
  button.addEventListener("click", (event) => { event.stopPropagation(); act(); });
  return button;
}

// Pointing at a term lights its own sources; a click opens its sum.
function addTerm(line, { text, kind, of }) {
  const style = `term ${kind && `of-${kind}`}`;
  if (of === null) return void add(line, "span", { class: style }, text);
  const button = add(line, "button", { type: "button", class: style }, text);
  button.addEventListener("click", (event) => {
    event.stopPropagation();
    if (looking.of !== null) looking.trail.push(looking.of);
    look(of, true);
  });
}

function listenForLooks(main) {
  const isHigh = (event) => event.clientY > 0.7 * globalThis.innerHeight;
  const ofEvent = (event) => {
    const element = event.target.closest?.("[data-of], [data-region]");
    if (!element) return null;
    if (!element.hasAttribute("data-region")) {
      const of = element.getAttribute("data-of");
      return readRef(of).operation ? of : null; // some are only lit, such as sliders
    }
    return regions.get(element).at(...cellUnder(element, event));
  };
  const peek = (event) => {
    if (looking.isLocked || panel().contains(event.target)) return;
    const of = ofEvent(event);
    if (of === null) rest(200);
    else look(of, false, isHigh(event));
  };
  main.addEventListener("pointerover", peek);
  main.addEventListener("pointermove", (event) => { if (event.target.hasAttribute?.("data-region")) peek(event); });
  main.addEventListener("pointerleave", () => rest(200));
  main.addEventListener("focusin", (event) => {
    const of = event.target.getAttribute?.("data-of");
    if (of && !looking.isLocked && !panel().contains(event.target)) look(of, false, event.target.getBoundingClientRect().bottom > 0.75 * globalThis.innerHeight);
  });
  main.addEventListener("click", (event) => {
    if (event.target.closest?.("#sum")) return;
    const of = ofEvent(event);
    looking.trail = [];
    const canvas = event.target.closest?.("[data-region]");
    if (canvas) regions.get(canvas).pick?.(...cellUnder(canvas, event));
    if (of === null) unlock();
    else if (!event.target.closest("[data-acts]")) look(of, true, isHigh(event)); // no other meaning
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") unlock(); });
  main.addEventListener("keydown", moveInRegion);
  afterwards.push(() => lookAgain());
}

// After a redraw, the same number is lit where it is drawn now. A number that is no longer drawn is let
// go: another text has fewer tokens, and the effects of heads are computed anew. Only what a click has
// kept may be a number that is drawn nowhere, as long as the page shows the same text.
function lookAgain(isAnotherText = false) {
  const { of, isLocked } = looking;
  if (of === null) return;
  if ((isAnotherText || !isLocked) && !isDrawn(of)) return void closeSum();
  if (isAnotherText) looking.trail = [];
  looking.of = null;
  look(of, isLocked, panel().classList.contains("high"));
}

function isDrawn(of) {
  if (document.querySelector(`[data-of="${of}"]`)) return true;
  return [...document.querySelectorAll("[data-region]")].some((canvas) => {
    const { rows, columns, spots } = regions.get(canvas), spot = spots(of);
    return spot && spot[0] < rows && spot[1] < columns;
  });
}

// A canvas is one stop of the Tab key; arrow keys move from cell to cell.
function moveInRegion(event) {
  const region = regions.get(event.target);
  if (!region) return;
  const { rows, columns } = region;
  if (event.key === "Enter") return void region.pick?.(...region.place);
  const at = moved(event.key, region.place[0] * columns + region.place[1], columns, rows * columns);
  if (at === null) return;
  event.preventDefault();
  region.place = [Math.floor(at / columns), at % columns];
  const of = region.at(...region.place);
  if (of !== null) look(of, false, event.target.getBoundingClientRect().bottom > 0.75 * globalThis.innerHeight);
}
