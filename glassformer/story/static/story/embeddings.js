// Chapter 2: where the tokens lie before the first layer.

chapters.push({
  id: "embeddings",
  title: "Embeddings",
  note: "Each token begins as a learned vector. Tokens that are used alike lie close together.",
  isShown: (scene) => Boolean(scene.embeddings),
  draw(place, scene) {
    const { names, places, share, ids, neighbours, is_in_text: inText, positions } = scene.embeddings;
    const grid = add(place, "div", { class: "side" });
    const figure = add(grid, "figure");
    add(figure, "figcaption", {}, `The directions in which these vectors differ most; they hold ${percent(share, 0)} of all differences.`);
    const points = drawMap(figure, names, places, inText, scene.main.picture?.unit === "pixel");
    const list = add(grid, "div", { class: "list" });
    follow(["token"], () => {
      const id = scene.main.ids[state.token], number = ids.indexOf(id);
      points.forEach((point, at) => point.classList.toggle("chosen", at === number)); // those of the text come first
      list.textContent = "";
      add(list, "p", { class: "said" }, `Nearest to ${quoted(names[number])}`);
      drawBars(list, neighbours[number].map(([name, value]) => ({ name, value, text: value.toFixed(3) })), 1);
      add(list, "p", { class: "hint" }, "Cosine of the angle between the vectors.");
    });
    if (positions) drawPositions(place, positions);
  },
});

function drawMap(figure, names, places, inText, areColours = false) {
  const width = Math.min(560, figure.clientWidth || 560), height = 380, room = 30;
  const svg = add(figure, "svg", { width, height, role: "img", "aria-label": "map of the embeddings" });
  const x = scale(domainOf(places.map(([a]) => a)), [room, width - 4 * room]);
  const y = scale(domainOf(places.map(([, b]) => b)), [height - room, room]);
  const points = places.map(([a, b], number) => {
    const group = add(svg, "g", { class: inText[number] ? "point known" : "point" });
    const circle = add(group, "circle", { cx: x(a), cy: y(b), r: areColours ? 8 : inText[number] ? 5 : 3 });
    if (areColours && names[number].startsWith("#")) circle.style.fill = names[number];
    add(group, "text", { x: x(a) + (areColours ? 12 : 8), y: y(b) + 4 }, short(visible(names[number]), 14));
    add(group, "title", {}, visible(names[number]));
    return group;
  });
  keepLabelsApart([...points.filter((_, n) => inText[n]), ...points.filter((_, n) => !inText[n])]);
  return points;
}

// Hides the labels that would cover earlier ones; those of chosen points are always shown.
function keepLabelsApart(groups) {
  const taken = [];
  for (const group of groups) {
    const label = group.querySelector("text"), letters = Array.from(label.textContent).length;
    const left = Number(label.getAttribute("x")), y = Number(label.getAttribute("y"));
    const box = label.getBBox?.().width || 8 * letters;
    const isCovered = taken.some((other) => Math.abs(other.y - y) < 13 && left < other.right && other.left < left + box);
    group.classList.toggle("crowded", isCovered);
    if (!isCovered) taken.push({ left, right: left + box, y });
  }
}

// Bars with names and numbers, the largest first; `most` is the value of a full bar.
function drawBars(parent, rows, most) {
  const table = add(parent, "table", { class: "bars" });
  for (const { name, value, text, style, swatch } of rows) {
    const row = add(table, "tr", { class: style ?? "" });
    const head = add(row, "th", { dir: "auto" }, short(visible(name), 22));
    if (swatch) add(head, "span", { class: "swatch" }).style.background = swatch;
    const cell = add(row, "td", { class: "bar-cell" });
    const bar = add(cell, "span", { class: "bar-fill" });
    bar.style.width = `${100 * Math.max(0, Math.min(1, value / most))}%`;
    add(row, "td", { class: "value" }, text);
  }
}

function drawPositions(place, { vectors, similar }) {
  add(place, "h3", {}, "Positions");
  add(place, "p", { class: "hint" }, "Attention alone sees a set. A vector for each position is added to its token: left, the vectors (a row each); right, how alike any two of them are.");
  const row = add(place, "div", { class: "maps" });
  const most = Math.max(...vectors.flat().map(Math.abs));
  drawGrid(row, vectors, (value) => diverging(value / most), "position vectors", 4);
  drawGrid(row, similar, (value) => diverging(value), "cosine of two positions", 6);
}

// A matrix as a picture of one pixel a number, enlarged.
function drawGrid(parent, rows, colour, title, size) {
  const figure = add(parent, "figure");
  const canvas = add(figure, "canvas", { width: rows[0].length, height: rows.length, role: "img", "aria-label": title });
  canvas.style.width = `${Math.min(rows[0].length * size, 620)}px`;
  canvas.style.height = `${Math.max(rows.length * size, 40)}px`;
  add(figure, "figcaption", {}, title);
  paint(canvas, rows, colour);
  return canvas;
}

function paint(canvas, rows, colour) {
  const context = canvas.getContext?.("2d");
  if (!context) return;
  const image = context.createImageData(rows[0].length, rows.length);
  rows.forEach((row, r) => row.forEach((value, c) => {
    image.data.set(colour(value), 4 * (r * rows[0].length + c));
  }));
  context.putImageData(image, 0, 0);
}

// Orange for negative, blue for positive, transparent for zero: readable on light and dark paper,
// and for eyes that do not tell red from green.
function diverging(value) {
  const size = Math.min(1, Math.abs(value));
  return value < 0 ? [230, 120, 30, 255 * size] : [40, 110, 200, 255 * size];
}
