// Chapter 2: where the tokens lie before the first layer.

chapters.push({
  id: "embeddings",
  title: "Embeddings",
  equation: (scene) => [scene.embeddings.positions ? "x = E[token] + P[position]" : "x = E[token]"],
  note: "Each token begins as a learned vector. Tokens that are used alike lie close together.",
  isShown: (scene) => Boolean(scene.embeddings),
  draw(place, scene) {
    const { names, places, share, shown, is_in_text: inText, positions } = scene.embeddings;
    const grid = add(place, "div", { class: "side" });
    const box = addFigure(grid, { name: "Map of the embeddings", of: ["token"], caption: `The two directions in which these vectors differ most (PCA); they hold ${percent(share, 0)} of all differences. Filled: tokens of the text. Hollow: their neighbours.` });
    const points = drawMap(box, names, places, inText, scene.main.picture?.unit === "pixel");
    describe(box, `Places on the map: ${names.slice(0, 40).map((name, n) => `${quoted(name)} ${places[n].map((each) => each.toFixed(2)).join(", ")}`).join("; ")}`);
    const near = addFigure(grid, { name: "Nearest tokens", of: ["token"], caption: "Cosine of the angle between the vectors: 1 is the same direction." });
    follow(["token"], () => {
      const id = scene.main.ids[state.token];
      points.forEach((point, at) => point.classList.toggle("chosen", shown[at] === id));
      near.textContent = "";
      drawNeighbours(near, scene, id);
    });
    if (positions) drawPositions(place, positions);
  },
});

function drawNeighbours(box, scene, id) {
  const { ids, neighbours } = scene.embeddings, found = neighbours[ids.indexOf(id)];
  writeProse(add(box, "p", { class: "said" }), ["Nearest to ", tokenPick(scene.main, "token", state.token, "token", "query")]);
  if (!found) return;
  drawBars(box, found.map(([name, value, other]) => ({ name, value, text: value.toFixed(3), of: ["cosine", id, other] })), 1, "token");
}

function drawMap(figure, names, places, inText, areColours = false) {
  const width = Math.min(560, figure.clientWidth || 560), height = 380, room = 30;
  const svg = add(figure, "svg", { width, height, role: "group", "aria-label": "map of the embeddings; arrow keys move from token to token" });
  const x = scale(domainOf(places.map(([a]) => a)), [room, width - 4 * room]);
  const y = scale(domainOf(places.map(([, b]) => b)), [height - room, room]);
  const points = places.map(([a, b], number) => {
    const group = add(svg, "g", { class: inText[number] ? "point known" : "point", role: "img", "aria-label": `${visible(names[number])} at ${a.toFixed(2)}, ${b.toFixed(2)}` });
    const circle = add(group, "circle", { cx: x(a), cy: y(b), r: areColours ? 8 : inText[number] ? 5 : 3.5 });
    if (areColours && names[number].startsWith("#")) circle.style.fill = names[number];
    add(group, "text", { x: x(a) + (areColours ? 12 : 8), y: y(b) + 4 }, short(visible(names[number]), 14));
    return means(group, "place", number);
  });
  rove(svg, points);
  keepLabelsApart([...points.filter((_, n) => inText[n]), ...points.filter((_, n) => !inText[n])]);
  return points;
}

// Hides the labels that would cover earlier ones; those of chosen points are always shown.
function keepLabelsApart(groups) {
  const labels = groups.map((group) => group.querySelector("text"));
  const boxes = labels.map((label) => label.getBBox?.().width || 8 * Array.from(label.textContent).length);
  const taken = new Map(); // by height, so that few have to be compared
  groups.forEach((group, n) => {
    const left = Number(labels[n].getAttribute("x")), y = Number(labels[n].getAttribute("y")), right = left + boxes[n];
    const band = Math.floor(y / 13), near = [band - 1, band, band + 1].flatMap((each) => taken.get(each) ?? []);
    const isCovered = near.some((other) => Math.abs(other.y - y) < 13 && left < other.right && other.left < right);
    group.classList.toggle("crowded", isCovered);
    if (!isCovered) taken.set(band, [...(taken.get(band) ?? []), { left, right, y }]);
  });
}

// Bars with names and numbers, the largest first; `most` is the value of a full bar. A row with `of`,
// a name and a place, can be pointed at (see sources.js). `label` says what the names are.
function drawBars(parent, rows, most, label = "name") {
  const table = add(parent, "table", { class: "bars" });
  const head = add(add(table, "thead", { class: "spoken" }), "tr");
  for (const name of [label, "bar", "value"]) add(head, "th", { scope: "col" }, name);
  const body = add(table, "tbody"), items = [];
  for (const { name, value, text, style, of, swatch } of rows) {
    const row = add(body, "tr", { class: style ?? "" });
    const title = add(row, "th", { dir: "auto", scope: "row" }, short(visible(name), 22));
    if (swatch) add(title, "span", { class: "swatch" }).style.background = swatch;
    const cell = add(row, "td", { class: "bar-cell" });
    const bar = add(cell, "span", { class: "bar-fill" });
    bar.style.width = `${100 * Math.max(0, Math.min(1, value / most))}%`;
    add(row, "td", { class: "value" }, text);
    if (of) items.push(means(row, ...of));
  }
  rove(body, items, 1);
  return table;
}

function drawPositions(place, { vectors, similar }) {
  add(place, "h3", {}, "Positions");
  add(place, "p", { class: "hint" }, "Attention alone sees a set. So a vector for each position is added to its token.");
  const row = add(place, "div", { class: "maps" });
  const most = Math.max(...vectors.flat().map(Math.abs)), count = vectors.length, width = vectors[0].length;
  const left = addFigure(row, { name: "Position vectors", caption: `A row for each of ${count} positions, a column for each of ${width} numbers. Blue is positive, orange negative; the strongest colour is ±${number(most)}.` });
  drawMatrix(left, {
    rows: count, columns: width, value: (r, c) => vectors[r][c] / most, colour: diverging, label: "position vectors",
    size: 6, most: Math.min(560, place.clientWidth - 8 || 560), at: (r, c) => ref("position", r, c),
    spots: (of) => spotIn(of, "position", ([r, c]) => (r < count ? [r, c === "*" ? 0 : c, 1, c === "*" ? width : 1] : null)),
  });
  const right = addFigure(row, { name: "How alike positions are", caption: "Cosine of any two positions." });
  drawMatrix(right, {
    rows: count, columns: count, value: (r, c) => similar[r][c], colour: diverging, label: "cosine of any two positions",
    size: Math.max(6, Math.min(16, 220 / count)), at: (r, c) => ref("alike", r, c),
    spots: (of) => spotIn(of, "alike", ([r, c]) => [r, c, 1, 1]),
  });
  describe(right, `Cosines of neighbouring positions: ${similar.slice(1, 12).map((each, n) => each[n].toFixed(2)).join(", ")}`);
}

// The spot of a reference in a picture of one operation.
function spotIn(of, name, spot) {
  if (!of.startsWith(`${name}/`)) return null;
  return spot(readRef(of).place);
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
  const shown = (value) => (value === undefined ? [0, 0, 0, 0] : colour(value)); // the last row may be shorter
  paintCells(canvas, rows.length, rows[0].length, (r, c) => rows[r][c], shown);
}

// Orange for negative, blue for positive, transparent for zero: readable on light and dark paper,
// and for eyes that do not tell red from green.
function diverging(value) {
  const size = Math.min(1, Math.abs(value));
  return value < 0 ? [230, 120, 30, 255 * size] : [40, 110, 200, 255 * size];
}
