// Windows of a picture: which places look at each other in a layer, and how shifted windows connect them.

chapters.push({
  id: "windows",
  title: "Windows and their shift",
  equation: ({ main }) => [...(hasShift(main) ? ["roll → "] : []), "windows → softmax(", ...scaledProduct(main), ...addedToScores(main), ")", ...(hasShift(main) ? [" → roll back"] : [])],
  note: ({ main }) => `In this model, a place looks only at the places in its own window. ${hasShift(main) ? "In every second layer, the windows are shifted by half their size. Step through the layers, and point at a place." : "Point at a place, or choose a layer."}`,
  isShown: ({ main }) => Boolean(main.picture && main.layers?.some(({ windows }) => windows?.length > 1)),
  draw: drawWindows,
});

const OF_WINDOWS = 360; // pixels of the longer side of the drawing
const isShifted = ({ shift }) => shift.some(Boolean), hasShift = ({ layers }) => layers.some(isShifted);

// One step for a layer whose windows are not shifted, three for one whose windows are, which joins the
// layer before.
function windowSteps({ layers }) {
  const named = (layer, kind, name) => ({ layer, kind, name: `Layer ${layer}: ${name}`, pair: isShifted(layers[layer]) ? layer - 1 : layer });
  return layers.flatMap((each, layer) => (isShifted(each) ? [
    named(layer, "cut", "shifted windows"), named(layer, "rolled", "rolled, as computed"), named(layer, "back", "rolled back"),
  ] : [named(layer, "cut", "windows")]));
}

// The rectangles of a layer: a window, or the parts of one that come from different sides of the
// picture and are masked from each other. Rows and columns are those of the grid as it is cut, with
// its padding; `places` has -1 for padding.
function windowParts(layer) {
  if (layer.parts) return layer.parts;
  const [high, wide] = layer.window, across = layer.padded[1] / wide;
  return layer.parts = layer.windows.flatMap((window, number) => {
    const regions = [...new Set(layer.regions[number])];
    const isPlace = (region) => window.some((place, at) => place >= 0 && layer.regions[number][at] === region);
    const ofPlaces = regions.filter(isPlace).length;
    return regions.map((region) => {
      const own = window.map((_, at) => at).filter((at) => layer.regions[number][at] === region), [first, last] = [own[0], own.at(-1)];
      const row = Math.floor(number / across) * high + Math.floor(first / wide), column = (number % across) * wide + (first % wide);
      return {
        number, isSplit: ofPlaces > 1, places: own.map((at) => window[at]).filter((place) => place >= 0),
        row, column, rows: Math.floor(last / wide) - Math.floor(first / wide) + 1, columns: (last % wide) - (first % wide) + 1,
      };
    });
  });
}

const windowPartAt = (layer, position) => windowParts(layer).find(({ places }) => places.includes(position));

// What a place may hold after a layer and the one before: the parts that its window's places looked at.
function reachOf(layers, number, position) {
  return [...new Set(windowPartAt(layers[number], position).places.map((place) => windowPartAt(layers[number - 1], place)))];
}

const sizeOf = (parts) => parts.reduce((sum, { places }) => sum + places.length, 0);

function drawWindows(place, scene) {
  const stream = scene.main, { picture, layers } = stream, steps = windowSteps(stream);
  let at = Math.max(0, steps.findIndex(({ layer }) => layer === state.layer)), pointed = null; // instead of the chosen place
  const line = add(place, "div", { class: "controls window-steps", role: "group", "aria-label": "steps" });
  const pairs = [...new Set(steps.map(({ pair }) => pair))];
  const nameOf = (pair) => `${layers[pair + 1] && isShifted(layers[pair + 1]) ? `${pair} and ${pair + 1}` : pair}: ${layers[pair].grid.join("×")} places`;
  const which = pairs.length > 1 ? addChoice(line, "layers", pairs.map((pair) => [String(pair), nameOf(pair)]), "", (pair) => go(steps.findIndex((step) => step.pair === Number(pair)))) : null;
  const go = (next) => {
    at = Math.max(0, Math.min(steps.length - 1, next));
    pointed = null;
    choose({ layer: steps[at].layer, head: Math.min(state.head, headsOf(layers[steps[at].layer]) - 1), key: null });
    draw();
  };
  const back = add(line, "button", { type: "button", "aria-label": "one step back" }, "‹");
  back.addEventListener("click", () => go(at - 1));
  const buttons = steps.map(({ name }, n) => {
    const button = add(line, "button", { type: "button" }, name);
    button.addEventListener("click", () => go(n));
    return button;
  });
  const next = add(line, "button", { type: "button", "aria-label": "one step further" }, "›");
  next.addEventListener("click", () => go(at + 1));
  const pair = add(place, "div", { class: isStrip(picture) ? "pair stacked" : "pair" });
  const box = addFigure(pair, { name: "Windows and their shift", of: ["layer", "token"] }), beside = add(pair, "div", { class: "beside" });
  const said = add(beside, "p", { class: "said", "aria-live": "polite" }), words = add(beside, "div");
  let drawn = null;

  const position = () => pointed ?? positionIn(stream, steps[at].layer, state.token);
  function draw() {
    const { layer, kind } = steps[at];
    buttons.forEach((button, n) => {
      button.classList.toggle("chosen", n === at);
      button.setAttribute("aria-pressed", n === at);
      button.hidden = steps[n].pair !== steps[at].pair;
    });
    if (which) which.value = String(steps[at].pair);
    [back.disabled, next.disabled] = [at === 0, at === steps.length - 1];
    if (drawn?.layer !== layer) drawn = addWindowPicture(box, stream, layer, { point: (spot) => { pointed = spot; light(); }, choose: pick, current: position });
    drawn.roll(kind === "rolled");
    setCaption(box, kind === "back" ? `Blue: the place and its window in layer ${layer}. White: the windows of layer ${layer - 1} that this one joins.`
      : `Blue: the place, and all that it may look at.${windowParts(layers[layer]).some(({ isSplit }) => isSplit) ? " Parts with one letter belong to one window; hatched: masked from the place." : ""}${layers[layer].windows.some((window) => window.includes(-1)) ? " Grey: padding." : ""}`);
    words.textContent = "";
    for (const text of whyWindows(stream, steps[at])) add(words, "p", { class: "hint" }, text);
    light();
  }
  function light() {
    const { layer, kind } = steps[at], own = position();
    drawn.light(own, kind === "back" ? reachOf(layers, layer, own) : null);
    said.textContent = windowInWords(stream, steps[at], own);
  }
  function pick(spot) {
    pointed = null;
    const [token] = placesAt(stream, steps[at].layer, spot);
    if (token === state.token) light();
    else choose({ token, key: null });
  }
  follow(["layer", "token"], () => {
    if (steps[at].layer !== state.layer) at = steps.findIndex(({ layer }) => layer === state.layer);
    draw();
  });
}

// The picture, its grid and the windows of one layer, in place or rolled as the layer computes them.
function addWindowPicture(box, stream, number, { point, choose: pick, current }) {
  const { picture } = stream, layer = stream.layers[number], [rows, columns] = layer.grid, [high, wide] = layer.padded, [down, right] = layer.shift;
  const [width, height] = drawnSize([picture.size[0] * high / rows, picture.size[1] * wide / columns], OF_WINDOWS), [x, y] = [width / wide, height / high];
  box.textContent = "";
  const label = `the grid of layer ${number} and its windows; arrow keys choose a place`;
  const room = add(box, "div", { class: "picture windows", role: "group", "aria-label": label, tabindex: 0 });
  room.style.maxWidth = `${width}px`;
  const svg = add(room, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const definitions = add(svg, "defs"), hatch = add(definitions, "pattern", { id: "masked-hatch", width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  add(hatch, "rect", { width: 8, height: 8, class: "hatch-ground" });
  add(hatch, "rect", { width: 2, height: 8, class: "hatch" });
  const image = add(definitions, "image", { id: "rolled-picture", href: picture.image, width: columns * x, height: rows * y, preserveAspectRatio: "none" });
  image.classList.toggle("sharp", Math.max(...picture.size) <= SHARP_SIDE);
  add(svg, "rect", { class: "no-places", width, height });
  // What rolls: up to four parts of the picture, and where they come to lie.
  const halves = [[0, down, high - down], [down, rows, -down]].filter(([from, to]) => to > from);
  const sides = [[0, right, wide - right], [right, columns, -right]].filter(([from, to]) => to > from);
  const quarters = halves.flatMap(([top, bottom, by]) => sides.map(([left, end, along]) => {
    const part = add(svg, "g", { class: "rolling" });
    const crop = add(part, "svg", { x: left * x, y: top * y, width: (end - left) * x, height: (bottom - top) * y, viewBox: [left * x, top * y, (end - left) * x, (bottom - top) * y].join(" "), preserveAspectRatio: "none" });
    add(crop, "use", { href: "#rolled-picture" });
    return { part, to: `translate(${along * x}px, ${by * y}px)` };
  }));
  const grid = add(svg, "g", { class: "window-grid" });
  for (let n = 1; n < wide; n += 1) add(grid, "line", { x1: n * x, x2: n * x, y1: 0, y2: height });
  for (let n = 1; n < high; n += 1) add(grid, "line", { y1: n * y, y2: n * y, x1: 0, x2: width });
  const marks = add(svg, "g");
  let isRolled = false;

  // Where something of the cut grid is drawn: rolled as it is, else where it is in the picture.
  const rowOf = (row) => (isRolled ? row : (row + down) % high), columnOf = (column) => (isRolled ? column : (column + right) % wide);
  const spotOf = (place) => [Math.floor(place / columns), place % columns].map((at, axis) => (isRolled ? (at - layer.shift[axis] + layer.padded[axis]) % layer.padded[axis] : at));
  const rectangle = (row, column, rows, columns, style) => add(marks, "rect", { class: style, x: column * x, y: row * y, width: columns * x, height: rows * y });
  const ofPart = (part, style) => rectangle(rowOf(part.row), columnOf(part.column), part.rows, part.columns, style);

  function light(own, reached) {
    marks.textContent = "";
    const parts = windowParts(layer).filter(({ places }) => places.length), mine = windowPartAt(layer, own), seen = reached ?? [mine];
    const boxOf = (part) => (reached ? [part.row, part.column] : [rowOf(part.row), columnOf(part.column)]);
    const holes = seen.map((part) => { const [row, column] = boxOf(part); return `M${column * x} ${row * y}h${part.columns * x}v${part.rows * y}h${-part.columns * x}Z`; });
    add(marks, "path", { class: "veil", "fill-rule": "evenodd", d: `M0 0H${width}V${height}H0Z${holes.join("")}` });
    for (const part of seen) rectangle(...boxOf(part), part.rows, part.columns, "seen");
    for (const part of reached ?? parts) rectangle(...boxOf(part), part.rows, part.columns, part.isSplit ? "window split" : "window");
    if (!reached) for (const part of parts) if (part.number === mine.number && part !== mine) ofPart(part, "masked-part").setAttribute("fill", "url(#masked-hatch)");
    if (!reached) nameParts(parts.filter((part) => part.isSplit), mine);
    ofPart(mine, "window mine");
    rectangle(...spotOf(own), 1, 1, "frame of-query");
  }

  function nameParts(parts, mine) {
    const numbers = [...new Set(parts.map(({ number }) => number))];
    for (const part of parts) {
      if (part === mine) continue; // it shows the place
      const size = Math.min(15, 0.9 * part.columns * x, 0.9 * part.rows * y), letter = String.fromCharCode(97 + (numbers.indexOf(part.number) % 26));
      const at = { x: (columnOf(part.column) + part.columns / 2) * x, y: (rowOf(part.row) + part.rows / 2) * y + size / 3 };
      add(marks, "text", { class: "place-number", "text-anchor": "middle", ...at }, letter).style.fontSize = `${size}px`;
    }
  }

  listenTo({ box: room, svg, rows: high, columns: wide, showNumber() {} }, {
    point: (cell) => { const place = placeOfCell(cell); if (place !== null) point(place); },
    leave: () => point(null),
    choose: (cell) => { const place = placeOfCell(cell); if (place !== null) pick(place); },
  });
  function placeOfCell(cell) {
    const [row, column] = [Math.floor(cell / wide), cell % wide].map((at, axis) => (isRolled ? (at + layer.shift[axis]) % layer.padded[axis] : at));
    return row < rows && column < columns ? row * columns + column : null; // else padding
  }
  room.addEventListener("keydown", (event) => {
    const goal = moved(event.key, current(), columns, rows * columns);
    if (goal === null) return;
    event.preventDefault();
    pick(goal);
  });
  return {
    layer: number, light,
    roll(isAsked) {
      isRolled = isAsked;
      for (const { part, to } of quarters) part.style.transform = isRolled ? to : "none";
    },
  };
}

// What the pointed or chosen place may look at.
function windowInWords(stream, { layer, kind }, position) {
  const own = stream.layers[layer], mine = windowPartAt(own, position), name = nameIn(stream, layer, position);
  if (kind === "back") return `In layer ${layer}, ${name} looked at ${countedPlaces(mine)} of its window, each of which had looked at its own window in layer ${layer - 1}: it may now hold something of ${sizeOf(reachOf(stream.layers, layer, position))} places. Without the shift, it would be ${windowPartAt(stream.layers[layer - 1], position).places.length}.`;
  const window = windowParts(own).filter(({ number }) => number === mine.number), size = own.window[0] * own.window[1];
  const masked = sizeOf(window) - mine.places.length, padding = size - masked - mine.places.length;
  const others = [
    masked && `${masked} in the window ${masked === 1 ? "comes" : "come"} from another side of the picture and ${masked === 1 ? "is" : "are"} masked`,
    padding && `${padding} ${padding === 1 ? "is" : "are"} padding`,
  ].filter(Boolean);
  return `${name[0].toUpperCase()}${name.slice(1)} may look at ${countedPlaces(mine)} of its ${masked ? "part of the window" : "window"}.${others.length ? ` ${others.length === 2 ? "Of the others, " : "The other "}${others.join(", and ")}.` : ""}`;
}

const countedPlaces = ({ places }) => (places.length === 1 ? "the one place" : `the ${places.length} places`);

// What a step does, and why.
function whyWindows({ layers }, { layer, kind }) {
  const { grid: [rows, columns], window: [high, wide], shift, windows } = layers[layer], count = rows * columns;
  if (kind === "rolled") return [
    `To compute this, the grid is rolled up by ${shift[0]} and left by ${shift[1]}: what leaves at one side comes in at the other. So all ${windows.length} windows have the same size, and are computed at once.`,
    "Parts with the same letter now lie in one window, but come from different sides of the picture: they are neighbours only because the grid wraps around. A mask sets the scores between them to −∞ (hatched for the place that you point at).",
  ];
  if (kind === "back") return [
    "After attention, the grid is rolled back, so that every place is where it was.",
    `Why the windows shift: otherwise, borders would be the same in both layers, and nothing would pass from one window to the next. The window of layer ${layer} lies across the borders of layer ${layer - 1}, so windows that were neighbours share what they know.`,
  ];
  const pairs = windowParts(layers[layer]).reduce((sum, { places }) => sum + places.length ** 2, 0);
  const cost = windows.length > 1 ? `${number(pairs)} pairs of places are compared, instead of ${number(count ** 2)} without windows.` : "So every place may look at all others.";
  const how = isShifted(layers[layer])
    ? `The borders have moved by ${shift[0]} ${shift[0] === 1 ? "row" : "rows"} and ${shift[1]} ${shift[1] === 1 ? "column" : "columns"}: places that a border separated in layer ${layer - 1} now share a window. At the sides of the picture, windows are cut; parts with the same letter will share one.`
    : `${rows}×${columns} places in ${windows.length === 1 ? "one window" : `${windows.length} windows`} of ${high}×${wide}.`;
  return [how, cost];
}
