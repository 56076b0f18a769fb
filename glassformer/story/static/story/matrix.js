// A matrix of numbers as a canvas of one pixel each, enlarged, every cell of which can be pointed at.

// `colour(value)` is [r, g, b, a]; `at(row, column)` and `spots(of)` are as in meansCells. Returns the
// canvas. `size` is the width of a cell, made smaller if there is no room.
function drawMatrix(parent, { rows, columns, value, colour, label, size = 12, most = 460, at, spots, pick = null, rowNames = null, columnNames = null }) {
  const cell = Math.max(Math.min(size, most / columns), 0.2);
  const box = add(parent, "div", { class: rowNames ? "matrix named" : "matrix" });
  if (columnNames) addNames(box, "column-names", columnNames, cell);
  if (rowNames) addNames(box, "row-names", rowNames, cell);
  const frame = add(box, "div", { class: "frame" });
  const canvas = add(frame, "canvas", { width: columns, height: rows, role: "img", tabindex: 0, "aria-label": `${label}. Arrow keys move from cell to cell.` });
  frame.style.width = `${cell * columns}px`;
  frame.style.height = `${cell * rows}px`;
  add(frame, "svg", { class: "marks", viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  paintCells(canvas, rows, columns, value, colour);
  meansCells(canvas, { rows, columns, at, spots, pick });
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

// The names of rows or columns, one beside each cell.
function addNames(box, style, names, cell) {
  const list = add(box, "div", { class: style, "aria-hidden": "true" });
  for (const name of names) {
    const line = add(list, "span", { dir: "auto" });
    line.style.setProperty("--cell", `${cell}px`);
    add(line, "span", {}, short(visible(name), 12));
  }
}

// Strong on light and on dark paper.
const blues = (share) => [58, 128, 228, 255 * Math.sqrt(Math.max(0, share))];
