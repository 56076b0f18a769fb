// Chapter 2: where the tokens lie before the first layer.

chapters.push({
  id: "embeddings",
  title: "Embeddings",
  equation: (scene) => [entryEquation(scene.embeddings)],
  note: (scene) => (isPainted(scene)
    ? "Each colour of the palette begins as a learned vector. Colours that are used alike lie close together."
    : "Each token begins as a learned vector. Tokens that are used alike lie close together."),
  isShown: (scene) => Boolean(scene.embeddings),
  draw(place, scene) {
    const { names, places, share, shown, is_in_text: inText, positions } = scene.embeddings, isColour = isPainted(scene);
    const what = isColour ? "colours of the picture" : "tokens of the text", unit = isColour ? "colours" : "tokens";
    const grid = add(place, "div", { class: "side" });
    const box = addFigure(grid, { name: "Map of the embeddings", of: ["token"], caption: `The two directions in which these vectors differ most (PCA); they explain ${percent(share, 0)} of the variance. ${isColour ? `Large: ${what}. Small: others of the palette.` : `Filled: ${what}. Hollow: their neighbours.`}` });
    const points = drawMap(box, names, places, inText, isColour);
    describe(box, `Places on the map: ${names.slice(0, 40).map((name, n) => `${quoted(name)} ${places[n].map((each) => each.toFixed(2)).join(", ")}`).join("; ")}`);
    const near = addFigure(grid, { name: `Nearest ${unit}`, of: ["token"], caption: "Cosine of the angle between the vectors: 1 is the same direction." });
    follow(["token"], () => {
      const id = scene.main.ids[state.token];
      points.forEach((point, at) => point.classList.toggle("chosen", shown[at] === id));
      near.textContent = "";
      drawNeighbours(near, scene, id);
    });
    if (positions) drawPositions(place, positions);
  },
});

// How a token enters the first layer, in this model.
function entryEquation({ entry }) {
  const token = `${entry.is_scaled ? "√d · " : ""}${entry.is_widened ? "W " : ""}E[token]`;
  const sum = [token, entry.adds_positions ? "P[position]" : "", entry.has_segments ? "S[segment]" : ""].filter(Boolean).join(" + ");
  return `x = ${entry.is_normed ? `norm(${sum})` : sum}`;
}

function drawNeighbours(box, scene, id) {
  const { ids, neighbours } = scene.embeddings, found = neighbours[ids.indexOf(id)];
  writeProse(add(box, "p", { class: "said" }), ["Nearest to ", tokenPick(scene.main, "token", state.token, "token", "query")]);
  if (!found) return;
  drawBars(box, found.map(([name, value, other]) => ({ name, value, text: value.toFixed(3), of: ["cosine", id, other], swatch: isPainted(scene) && name.startsWith("#") ? name : null })), 1, "token");
}

function drawMap(figure, names, places, inText, areColours = false) {
  const width = Math.min(560, figure.clientWidth || 560), height = 380, room = 30;
  const svg = add(figure, "svg", { width, height, role: "group", "aria-label": "map of the embeddings; arrow keys move from token to token" });
  const x = scale(domainOf(places.map(([a]) => a)), [room, width - 4 * room]);
  const y = scale(domainOf(places.map(([, b]) => b)), [height - room, room]);
  const points = places.map(([a, b], number) => {
    const group = add(svg, "g", { class: inText[number] ? "point known" : "point", role: "img", "aria-label": `${visible(names[number])} at ${a.toFixed(2)}, ${b.toFixed(2)}` });
    const circle = add(group, "circle", { cx: x(a), cy: y(b), r: (areColours ? 3 : 0) + (inText[number] ? 5 : 3.5) });
    if (areColours && names[number].startsWith("#")) circle.style.fill = names[number];
    add(group, "text", { x: x(a) + (areColours ? 12 : 8), y: y(b) + 4 }, short(visible(names[number]), 14));
    return means(group, "place", number);
  });
  rove(svg, points);
  keepLabelsApart([...points.filter((_, n) => inText[n]), ...points.filter((_, n) => !inText[n])]);
  return points;
}

// Labels stand to the right of their points, or to the left where that is free. Those that would cover
// an earlier label are hidden, and so are those that would cover a point, unless they are of the text;
// those of chosen points are always shown.
function keepLabelsApart(groups) {
  const labels = groups.map((group) => group.querySelector("text"));
  const widths = labels.map((label) => label.getBBox?.().width || 8 * Array.from(label.textContent).length);
  const dots = makeSpots(), names = makeSpots();
  for (const circle of groups.flatMap((group) => [...group.querySelectorAll("circle")].slice(-1))) {
    const [x, y, r] = ["cx", "cy", "r"].map((name) => Number(circle.getAttribute(name)));
    dots.take({ left: x - r, right: x + r, y: y + 4 });
  }
  groups.forEach((group, n) => {
    const x = Number(labels[n].getAttribute("x")), y = Number(labels[n].getAttribute("y"));
    const sides = [{ left: x, right: x + widths[n], y }, { left: x - 16 - widths[n], right: x - 16, y }];
    const free = sides.filter((side) => side.left >= 0 && names.isFree(side));
    const best = free.find(dots.isFree) ?? (group.classList.contains("known") ? free[0] : undefined);
    group.classList.toggle("crowded", !best);
    if (!best) return;
    names.take(best);
    labels[n].setAttribute("x", best.left);
  });
}

// Spans of a picture, each from left to right around a height.
function makeSpots() {
  const taken = new Map(), bandOf = (y) => Math.floor(y / 13), within = (band) => taken.get(band) ?? []; // few have to be compared
  return {
    take: (spot) => taken.set(bandOf(spot.y), [...within(bandOf(spot.y)), spot]),
    isFree: ({ left, right, y }) => ![-1, 0, 1].flatMap((n) => within(bandOf(y) + n))
      .some((other) => Math.abs(other.y - y) < 13 && left < other.right && other.left < right),
  };
}

// Bars with names and numbers, the largest first; `most` is the value of a full bar. A row with `of`,
// a name and a place, can be pointed at (see sources.js); `at` is the position of a name that others
// share. `label` says what the names are.
function drawBars(parent, rows, most, label = "name") {
  const table = add(parent, "table", { class: "bars" });
  const head = add(add(table, "thead", { class: "spoken" }), "tr");
  for (const name of [label, "bar", "value"]) add(head, "th", { scope: "col" }, name);
  const body = add(table, "tbody"), items = [];
  for (const { name, at = null, value, text, style, of, swatch } of rows) {
    const row = add(body, "tr", { class: style ?? "" });
    const title = add(row, "th", { dir: "auto", scope: "row" }, short(visible(name), 22));
    if (at !== null) add(title, "span", { class: "at" }, ` at ${at}`);
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

// The size that all but one number of a hundred stay below, where a few are far larger than the others.
function usualSize(numbers) {
  const sizes = Float64Array.from(numbers, Math.abs).sort(), most = sizes.at(-1), usual = sizes[Math.floor(0.99 * (sizes.length - 1))];
  return usual > 0 && most > 2 * usual ? usual : most || 1;
}

function drawPositions(place, { vectors, similar }) {
  add(place, "h3", {}, "Positions");
  add(place, "p", { class: "hint" }, "Attention by itself ignores the order of tokens. So a vector for its position is added to each token.");
  const row = add(place, "div", { class: "maps" });
  const most = usualSize(vectors.flat()), largest = vectors.flat().reduce((a, b) => Math.max(a, Math.abs(b)), 0), count = vectors.length, width = vectors[0].length;
  const left = addFigure(row, { name: "Position vectors", caption: `A row for each of ${count} positions, a column for each of ${width} numbers. Blue is positive, orange negative; the strongest colour is ±${number(most)}${largest > most ? ` and more, up to ${number(largest)}` : ""}.` });
  drawMatrix(left, {
    rows: count, columns: width, value: (r, c) => vectors[r][c] / most, colour: diverging, label: "position vectors",
    size: 6, most: Math.min(560, place.clientWidth - 8 || 560), tall: Math.min(6, 240 / count), at: (r, c) => ref("position", r, c),
    spots: (of) => spotIn(of, "position", ([r, c]) => (r < count ? [r, c === "*" ? 0 : c, 1, c === "*" ? width : 1] : null)),
  });
  const right = addFigure(row, { name: "How alike positions are", caption: "Cosine of each pair of positions." });
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
