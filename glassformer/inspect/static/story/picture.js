// Pictures: an image with a cell for each place of a grid, which can be lit, framed and pointed at.

const BRIGHTEST = 0.8; // opacity of the largest weight: the picture shows through
const SHARP_SIDE = 128; // pixels of an image, up to which each is drawn as a square
const MOST_ASPECT = 6; // a longer strip is drawn as if it were this long

// What is chosen in a picture that the other chapters do not follow: the source of a caption.
for (const each of [state, usualState]) Object.assign(each, { patch: null, patchLayer: 0, patchHead: 0 });

const picturesOf = (scene) => scene.streams.filter(({ picture }) => picture);
const sourceOf = (scene) => scene.streams.find(({ name }) => name === scene.main.memory);

// The names of what the reader chose in a stream: the chapters follow those of the main one.
function chosenNames(scene, stream) {
  if (stream === scene.main) return { token: "token", layer: "layer", head: "head" };
  return { token: "patch", layer: "patchLayer", head: "patchHead" };
}

// The largest numbers that an address may have for these.
function pictureLimits(scene) {
  const [source] = picturesOf(scene).filter((stream) => stream !== scene.main);
  if (!source) return {};
  const { layers, tokens } = source;
  return {
    patch: tokens.length - 1,
    patchLayer: (layers?.length ?? 1) - 1, patchHead: (layers?.[0].query.shape[0] ?? 1) - 1,
  };
}

const middleOf = ([rows, columns]) => Math.floor(rows / 2) * columns + Math.floor(columns / 2);

// Row and column of a token, counted from 1, in words; a class token has none.
function whereIs({ picture }, token) {
  const place = token - picture.num_extra, columns = picture.grid[1];
  return place < 0 ? "" : ` (row ${Math.floor(place / columns) + 1}, column ${(place % columns) + 1})`;
}

// 64 patches and a class token
function countedTokens(stream) {
  const extra = stream.picture?.num_extra ?? 0, first = extra ? ` and a ${stream.tokens[0].replace(/ token$/, "")} token` : "";
  const count = placesIn(stream) ?? stream.tokens.length;
  return `${count} ${count === 1 ? oneOf(stream) : unitsOf(stream)}${first}`;
}

// The last pixel is only predicted: it is a place, but no token.
const placesIn = ({ picture }) => (picture ? picture.grid[0] * picture.grid[1] : null);
const isPainted = (scene) => scene.main.picture?.unit === "pixel";
const oneOf = (stream) => stream.picture?.unit ?? "token";
const unitsOf = (stream) => (stream.picture ? { patch: "patches", pixel: "pixels" }[stream.picture.unit] : "tokens");
const isStrip = ({ size: [height, width] }) => width > 2 * height; // pictures that stand one below the other

// The position in a layer of a token: where places are merged, several tokens share one.
function positionIn(stream, layer, token) {
  const own = stream.layers[layer].grid;
  if (!own) return token;
  const [rows, columns] = stream.picture.grid;
  const down = Math.ceil(rows / own[0]), right = Math.ceil(columns / own[1]);
  return Math.floor(Math.floor(token / columns) / down) * own[1] + Math.floor((token % columns) / right);
}

const gridOf = (stream, layer) => stream.layers[layer].grid ?? stream.picture.grid;

function nameIn(stream, layer, position) {
  const own = stream.layers[layer].grid;
  if (!own || own[0] * own[1] === stream.tokens.length) return stream.tokens[position];
  return `place ${position} of ${own[0]}×${own[1]}`;
}

// The name in a sentence, with its position where others have the same name.
function nameAmong(stream, layer, position) {
  const name = nameIn(stream, layer, position);
  return name === stream.tokens[position] ? quotedAmong(stream.tokens, position) : quoted(name);
}

// Width and height on the page, in the aspect of the original.
function drawnSize([height, width], most) {
  const aspect = Math.min(MOST_ASPECT, Math.max(1 / MOST_ASPECT, width / height));
  return aspect >= 1 ? [most, Math.round(most / aspect)] : [Math.round(most * aspect), most];
}

// An image in a group of its own, with a cell for each place. `act` has what happens when a place is
// pointed at, left, and chosen (by click or keyboard).
function drawPicture(parent, picture, label, { source = picture.image, size = source === picture.seen ? picture.seen_size : picture.size, most = isStrip({ size }) ? 640 : 320, grid = picture.grid, act = {}, isGrey = false } = {}) {
  const [wide, high] = drawnSize(size, most), [rows, columns] = grid;
  const box = add(parent, "div", { class: "picture", role: "group", "aria-label": label });
  box.style.maxWidth = `${wide}px`;
  const svg = add(box, "svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": label });
  add(svg, "rect", { class: "ground", width: wide, height: high });
  const image = add(svg, "image", { href: source, width: wide, height: high, preserveAspectRatio: "none" });
  image.classList.toggle("sharp", Math.max(...size) <= SHARP_SIDE);
  image.classList.toggle("dim", isGrey);
  const cells = [];
  const [across, down] = [wide / columns, high / rows];
  const layer = add(svg, "g", { class: "cells-of" });
  for (let place = 0; place < rows * columns; place += 1) {
    const [row, column] = [Math.floor(place / columns), place % columns];
    const rect = { x: column * across, y: row * down, width: across, height: down };
    cells.push(add(layer, "rect", { class: "place", "fill-opacity": 0, ...rect }));
  }
  const frames = add(svg, "g");
  const drawn = { box, svg, image, cells, wide, high, across, down, columns, rows };
  drawn.frame = (places, kind) => {
    for (const old of [...frames.children]) if (old.classList.contains(kind)) old.remove();
    for (const place of places) {
      if (place < 0 || place >= cells.length) continue;
      const [row, column] = [Math.floor(place / columns), place % columns];
      add(frames, "rect", { class: `frame ${kind}`, x: column * across + 1, y: row * down + 1, width: Math.max(1, across - 2), height: Math.max(1, down - 2), rx: Math.min(3, across / 6) });
    }
  };
  addNumberTag(drawn);
  if (act.point || act.choose) listenTo(drawn, act);
  return drawn;
}

// The number at the place that is pointed at, beside it.
function addNumberTag(drawn) {
  const { svg, across, down, columns, wide } = drawn, tag = add(svg, "g", { class: "place-tag unsaved", visibility: "hidden" });
  const ground = add(tag, "rect", { height: 20, rx: 4 }), text = add(tag, "text", { "text-anchor": "middle" });
  drawn.showNumber = (place) => {
    const said = place === null ? "" : drawn.numberAt?.(place) ?? "";
    tag.setAttribute("visibility", said ? "visible" : "hidden");
    if (!said) return;
    const size = 14 + 8 * said.length, top = Math.floor(place / columns) * down;
    const middle = Math.max(size / 2, Math.min(wide - size / 2, ((place % columns) + 0.5) * across));
    const y = top >= 22 ? top - 22 : top + down + 2;
    text.textContent = said;
    for (const [key, value] of Object.entries({ x: middle - size / 2, y, width: size })) ground.setAttribute(key, value);
    for (const [key, value] of Object.entries({ x: middle, y: y + 15 })) text.setAttribute(key, value);
  };
}

function listenTo({ box, svg, columns, rows, showNumber }, { point, leave, choose: pick, current }) {
  const placeAt = (event) => {
    const around = svg.getBoundingClientRect();
    const column = Math.floor(((event.clientX - around.left) / around.width) * columns);
    const row = Math.floor(((event.clientY - around.top) / around.height) * rows);
    return column < 0 || row < 0 || column >= columns || row >= rows ? null : row * columns + column;
  };
  let last = null;
  svg.addEventListener("pointermove", (event) => {
    const place = placeAt(event);
    if (place === null || place === last) return;
    last = place;
    point?.(place);
    showNumber(place);
  });
  svg.addEventListener("pointerleave", () => {
    last = null;
    leave?.();
    showNumber(null);
  });
  svg.addEventListener("click", (event) => { const place = placeAt(event); if (place !== null) pick?.(place); });
  if (!pick || !current) return;
  box.setAttribute("tabindex", 0);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = current() < 0 ? 0 : current() + step;
    if (next < 0 || next >= rows * columns) return;
    pick(next);
    showNumber(next);
  });
  box.addEventListener("blur", () => showNumber(null));
}

// One rule for all maps, large and small: from 0, which leaves the picture as it is, to the largest
// number of the map, which is brightest. [r, g, b, a] of a share of it.
const heatOver = (share) => [...heatColour(share), 255 * BRIGHTEST * share ** 0.6];

// Lights the cells by numbers, and remembers them for the reader who points at one.
function lightUp(drawn, weights, format = percent) {
  const most = Math.max(...weights, 1e-9), isKnown = (weight) => weight !== undefined && weight !== null; // the last pixel is no token
  drawn.numberAt = (place) => (isKnown(weights[place]) ? format(weights[place]) : weights[place] === null ? "masked" : "");
  drawn.cells.forEach((cell, place) => {
    const [red, green, blue, alpha] = weights[place] === null ? MASKED_OVER : heatOver(Math.max(0, weights[place] ?? 0) / most);
    cell.setAttribute("fill", `rgb(${red} ${green} ${blue})`);
    cell.setAttribute("fill-opacity", (alpha / 255).toFixed(3));
  });
}

const addHeatScale = (parent, most, format = percent, hidden = "") => addScale(parent, most, { colour: heatOver, style: "heat-bar", format, hidden });

// Small maps: a pixel for each place. Returns the largest number.
function paintPlaces(canvas, weights, columns) {
  const rows = [], most = Math.max(...weights, 1e-9);
  for (let first = 0; first < weights.length; first += columns) rows.push(Array.from(weights.slice(first, first + columns)));
  paint(canvas, rows, (value) => (value === null ? MASKED_OVER : heatOver(value / most)));
  return most;
}

// A small map that can be chosen, with its largest number below it.
function addPlaceThumb(cell, [rows, columns], [wide, high], name, pressed) {
  const button = add(cell, "button", { type: "button", class: "thumb", "aria-label": name });
  const canvas = add(button, "canvas", { width: columns, height: rows }), largest = add(button, "span", { class: "thumb-most" });
  Object.assign(canvas.style, { width: `${wide}px`, height: `${high}px` });
  button.addEventListener("click", pressed);
  return {
    button,
    paint: (weights) => {
      largest.textContent = percent(paintPlaces(canvas, weights, columns));
      button.setAttribute("aria-label", `${name}: ${largest.textContent}`);
    },
  };
}

const THUMB_RULE = "Each map goes from 0 to its largest weight, which is written below it.";

// What the model read at one place, cut out of its image. `id` is that of the image in the <defs> of
// the same drawing, so that a saved drawing is complete.
function addSource(svg, { picture }, id) {
  const [height, width] = picture.seen_size;
  const image = add(add(svg, "defs"), "image", { id, href: picture.seen, width, height });
  image.classList.toggle("sharp", Math.max(height, width) <= SHARP_SIDE);
}

function addCrop(parent, { picture }, place, id, x, y, size) {
  const [height, width] = picture.seen_size, [rows, columns] = picture.grid;
  const [row, column] = [Math.floor(place / columns), place % columns];
  const viewBox = [(column * width) / columns, (row * height) / rows, width / columns, height / rows].join(" ");
  const part = add(parent, "svg", { x: x - size / 2, y: y - size / 2, width: size, height: size, viewBox, preserveAspectRatio: "none", class: "crop" });
  add(part, "use", { href: `#${id}` });
  add(parent, "rect", { class: "crop-frame", x: x - size / 2, y: y - size / 2, width: size, height: size });
}

// The same as a piece of the page.
function addTile(parent, { picture }, place) {
  const [rows, columns] = picture.grid, tile = add(parent, "span", { class: "crop-tile" });
  const share = (number, count) => (count > 1 ? (100 * number) / (count - 1) : 0);
  tile.style.backgroundSize = `${100 * columns}% ${100 * rows}%`;
  tile.style.backgroundPosition = `${share(place % columns, columns)}% ${share(Math.floor(place / columns), rows)}%`;
  return tile;
}

// The image for all tiles in a part of the page.
function useImage(place, name, uri) {
  place.style.setProperty(name, `url("${uri}")`);
}
