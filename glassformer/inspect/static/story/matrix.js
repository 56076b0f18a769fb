// A matrix of numbers as a canvas of one pixel each, enlarged, every cell of which can be pointed at.

// `colour(value)` is [r, g, b, a]; `at(row, column)` and `spots(of)` are as in meansCells. Returns the
// canvas. `size` is the width of a cell, made smaller if there is no room; `tall` is the least height of
// a row. Without `at`, cells have no sources.
function drawMatrix(parent, { rows, columns, value, colour, label, size = 12, most = 460, tall = 0, at, spots, pick = null, rowNames = null, columnNames = null }) {
  const cell = Math.max(Math.min(size, most / columns), 0.2);
  const box = add(parent, "div", { class: rowNames ? "matrix named" : "matrix" });
  if (columnNames) addNames(box, "column-names", columnNames, cell);
  if (rowNames) addNames(box, "row-names", rowNames, Math.max(cell, tall));
  const frame = add(box, "div", { class: "frame" });
  const canvas = add(frame, "canvas", { width: columns, height: rows, role: "img", "aria-label": at ? `${label}. Arrow keys move from cell to cell.` : label, ...(at ? { tabindex: 0 } : {}) });
  frame.style.width = `${cell * columns}px`;
  frame.style.height = `${Math.max(cell, tall) * rows}px`;
  add(frame, "svg", { class: "marks", viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  paintCells(canvas, rows, columns, value, colour);
  if (at) meansCells(canvas, { rows, columns, at, spots, pick });
  return canvas;
}

function paintCells(canvas, rows, columns, value, colour) {
  const context = canvas.getContext?.("2d");
  if (!context) return;
  const image = context.createImageData(columns, rows);
  for (let row = 0, n = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1, n += 4) image.data.set(colour(value(row, column)), n);
  }
  context.putImageData(image, 0, 0);
}

const LEAST_LINE = 12.5; // pixels from one name to the next

// The names of rows or columns, one beside each cell; where cells are smaller than a line of text, of
// every n-th, with its number and a tick.
function addNames(box, style, names, cell) {
  const every = Math.ceil(LEAST_LINE / cell), list = add(box, "div", { class: every > 1 ? `${style} ticked` : style, "aria-hidden": "true" });
  list.style.setProperty("--cell", `${cell}px`);
  names.forEach((name, n) => {
    const line = add(list, "span", { dir: "auto" });
    if (n % every === 0) add(line, "span", {}, every > 1 ? `${n} ${short(visible(name), 8)}` : short(visible(name), 12));
  });
}

// The scale of a map, from 0 or, if some of its numbers are negative, from the largest one with the
// other sign. `colour(share)` is [r, g, b, a], as in the map itself.
function addScale(parent, most, { colour, format = percent, style = "blue-bar", isSigned = false, hidden = "" }) {
  const line = add(parent, "p", { class: "heat-scale" }), steps = 64, least = isSigned ? -1 : 0;
  add(line, "span", {}, isSigned ? format(-most) : "0");
  const bar = add(line, "canvas", { class: style, width: steps, height: 1, role: "img", "aria-label": "scale of the colours" });
  paintCells(bar, 1, steps, (_, n) => least + ((1 - least) * n) / (steps - 1), colour);
  add(line, "span", {}, format(most));
  if (hidden) add(parent, "p", { class: "masked-key" }, `masked: ${hidden}`);
}

// Strong on light and on dark paper.
const blues = (share) => [58, 128, 228, 255 * Math.sqrt(Math.max(0, share))];

// What a mask hides has a grey of its own, on paper and over a picture.
const MASKED = [128, 128, 128, 90], MASKED_OVER = [128, 128, 128, 230];
const bluesOf = (most) => (weight) => (weight === null ? MASKED : blues(weight / most));
