// Where patches lie before the first layer, and what their positions have in common.

chapters.push({
  id: "patch-embeddings",
  title: "Patch embeddings",
  note: (scene) => `Each patch begins as a vector that is computed from its pixels${readsAround(scene) ? " and those around it, by convolutions" : ""}.${addedPositions(picturesOf(scene))}`,
  isShown: (scene) => picturesOf(scene).some(({ picture }) => picture.places && picture.unit === "patch"),
  draw(place, scene) {
    for (const stream of picturesOf(scene)) {
      const { places } = stream.picture, row = add(place, "div", { class: "columns" });
      if (places?.places) drawPatchMap(add(row, "div"), scene, stream);
      if (places?.similar) drawPlacesAlike(add(row, "div"), scene, stream);
    }
  },
});

chapters.push({
  id: "positions",
  title: "Positions",
  note: (scene) => `Each pixel begins as the vector of its colour.${addedPositions(picturesOf(scene))}`,
  isShown: (scene) => picturesOf(scene).some(({ picture }) => picture.places?.similar && picture.unit === "pixel"),
  draw(place, scene) {
    for (const stream of picturesOf(scene)) drawPlacesAlike(place, scene, stream);
  },
});

const LEAST_FIGURE = 260; // pixels, in which a caption can be read

const readsAround = (scene) => picturesOf(scene).some(({ picture }) => picture.reads_around);

// What is added to say where a place is, if anything is.
function addedPositions([{ picture }]) {
  if (!picture.adds_positions) return "";
  return picture.has_learned_positions ? " A learned vector is added to say where it is." : " A fixed vector of waves is added to say where it is in the sequence.";
}

function whyAlike({ has_learned_positions: isLearned, reads_around: readsAround }) {
  if (!isLearned) return "They are fixed waves over the sequence, not learned.";
  return readsAround ? "If near positions are alike, the model has learned this." : "The model is not told that the sequence is a grid: if near positions are alike, it has learned this.";
}

function drawPatchMap(parent, scene, stream) {
  const { picture } = stream, names = chosenNames(scene, stream), first = picture.num_extra;
  const { places, share } = picture.places;
  add(parent, "h3", {}, "What they look like");
  add(parent, "p", { class: "hint" }, `Patches on a map of the directions in which their vectors differ most, before positions are added; it explains ${percent(share, 0)} of the variance.`);
  const box = addFigure(parent, { name: "Map of the patches", of: names.token === "token" ? ["token"] : [] });
  const width = Math.min(560, box.clientWidth || 560), height = 400, room = 30;
  const svg = add(box, "svg", { width, height, role: "img", "aria-label": "map of the patches" });
  addSource(svg, stream, `patches-of-${names.token}`);
  const x = scale(domainOf(places.map(([a]) => a)), [room, width - room]);
  const y = scale(domainOf(places.map(([, b]) => b)), [height - room, room]);
  const size = Math.max(10, Math.min(28, 170 / Math.sqrt(places.length)));
  const groups = places.map(([a, b], number) => {
    const group = add(svg, "g", { class: "patch-point" });
    addCrop(group, stream, number, `patches-of-${names.token}`, x(a), y(b), size);
    add(group, "title", {}, `${stream.tokens[number + first]}${whereIs(stream, number + first)}`);
    group.addEventListener("click", () => choose({ [names.token]: number + first, key: null }));
    return group;
  });
  follow([names.token], () => groups.forEach((group, number) => {
    const isChosen = number + first === state[names.token];
    group.classList.toggle("chosen", isChosen);
    if (isChosen) svg.append(group); // on top of the others
  }));
}

// The cosine of one position with all others, and all of these maps on the grid of the picture.
function drawPlacesAlike(parent, scene, stream) {
  const { picture } = stream, names = chosenNames(scene, stream), first = picture.num_extra;
  const { data: values, shape: [count] } = picture.places.similar, [rows, columns] = picture.grid;
  const alike = (one, other) => values[one * count + other];
  add(parent, "h3", {}, "Where they are");
  add(parent, "p", { class: "hint" }, `How alike the vectors of positions are (cosine; blue: alike, orange: opposite). ${whyAlike(picture)}`);
  const row = add(parent, "div", { class: "maps" });
  const one = addFigure(row, { name: "One position and all others" }), [wide, high] = drawnSize(picture.size, 190);
  const canvas = add(one, "canvas", { width: columns, height: rows, role: "img", "aria-label": "the chosen position and all others" });
  Object.assign(canvas.style, { width: `${wide}px`, height: `${high}px` });
  one.closest("figure").style.width = `${Math.max(wide, LEAST_FIGURE)}px`;
  const all = addFigure(row, { name: "All positions", caption: "Each tile is the map of the position at its place." }), gap = 1;
  const size = [rows * (rows + gap) - gap, columns * (columns + gap) - gap];
  const [wider, higher] = drawnSize([size[0] * (picture.size[0] / rows), size[1] * (picture.size[1] / columns)], 330);
  const mosaic = add(all, "canvas", { width: size[1], height: size[0], role: "img", "aria-label": "each position and all others" });
  Object.assign(mosaic.style, { width: `${wider}px`, height: `${higher}px`, cursor: "pointer" });
  all.closest("figure").style.width = `${Math.max(wider, LEAST_FIGURE)}px`;
  later(() => paintMosaic(mosaic, rows, columns, gap, count, alike));
  mosaic.addEventListener("click", (event) => {
    const around = mosaic.getBoundingClientRect();
    const column = Math.min(columns - 1, Math.floor(((event.clientX - around.left) / around.width) * columns));
    const line = Math.min(rows - 1, Math.floor(((event.clientY - around.top) / around.height) * rows));
    if (line * columns + column < count) choose({ [names.token]: line * columns + column + first, key: null });
  });
  follow([names.token], () => {
    const token = state[names.token], place = Math.min(count - 1, token < first ? middleOf(picture.grid) : token - first);
    const lines = Array.from({ length: rows }, (_, r) => Array.from({ length: columns }, (_, c) => (r * columns + c < count ? alike(place, r * columns + c) : 0)));
    paint(canvas, lines, diverging);
    setCaption(one, `The position of ${stream.tokens[place + first]}${whereIs(stream, place + first)}.`);
  });
}

function paintMosaic(canvas, rows, columns, gap, count, alike) {
  const [high, wide] = [rows + gap, columns + gap];
  const lines = Array.from({ length: rows * high - gap }, (_, y) => Array.from({ length: columns * wide - gap }, (_, x) => {
    const inner = [y % high, x % wide];
    if (inner[0] >= rows || inner[1] >= columns) return 0;
    const one = Math.floor(y / high) * columns + Math.floor(x / wide), other = inner[0] * columns + inner[1];
    return one < count && other < count ? alike(one, other) : 0;
  }));
  paint(canvas, lines, diverging);
}
