// Chapter 1 of an image: the picture cut up.

const MOST_TILES = 400; // of the sequence that is drawn; more would be a blur

chapters.push({
  id: "patches",
  title: "Patches",
  note: (scene) => `The model does not see a picture but a sequence: squares, read row by row. ${readsAround(scene) ? "Convolutions compute the vector of a square, also from the pixels around it. " : ""}Choose one: ${whatFollowsAPatch(scene)}`,
  isShown: (scene) => picturesOf(scene).some(({ picture }) => picture.unit === "patch"),
  draw(place, scene) {
    for (const stream of picturesOf(scene)) drawCutUp(place, scene, stream);
  },
});

// The words of a caption have a choice of their own.
function whatFollowsAPatch({ main }) {
  if (main.picture) return "the pictures of patches and layers below follow it. The prediction is that of the whole picture.";
  return "the pictures of patches below follow it. The chapters on words follow the word that you choose there.";
}

chapters.push({
  id: "pixels",
  title: "Pixels",
  note: "The model reads one pixel after the other, each as a colour of its palette, and predicts the next. Choose one: every chapter below follows it.",
  isShown: (scene) => picturesOf(scene).some(({ picture }) => picture.unit === "pixel"),
  draw(place, scene) {
    for (const stream of picturesOf(scene)) drawCutUp(place, scene, stream);
  },
});

function drawCutUp(place, scene, stream) {
  const { picture } = stream, names = chosenNames(scene, stream), first = picture.num_extra;
  state[names.token] ??= first + middleOf(picture.grid);
  useImage(place, "--seen", picture.seen);
  const [rows, columns] = picture.grid, [height, width] = picture.seen_size;
  const box = addFigure(place, { name: `The picture as ${unitsOf(stream)}`, of: names.token === "token" ? ["token"] : [], style: "snug" });
  const pair = add(box, "div", { class: isStrip(picture) ? "pair stacked" : "pair" });
  const [left, right] = [add(pair, "div"), add(pair, "div")];
  const pick = (number) => number + first < stream.tokens.length && choose({ [names.token]: number + first, key: null });
  add(left, "p", { class: "over" }, `${picture.size[1]}×${picture.size[0]} pixels, cut into ${rows} rows and ${columns} columns`);
  const cut = drawPicture(left, picture, `the picture, cut into ${rows} × ${columns} ${unitsOf(stream)}; arrow keys choose one`, {
    act: { choose: pick, current: () => state[names.token] - first },
  });
  cut.svg.classList.add("ruled");
  if (rows * columns <= 144) numberCells(cut);
  add(right, "p", { class: "over" }, `What the model read: ${width}×${height} pixels${picture.unit === "pixel" ? " in its palette" : ""}`);
  drawPicture(right, picture, "what the model read", { source: picture.seen });
  const said = add(place, "p", { class: "said", "aria-live": "polite" });
  const row = add(place, "div", { class: "tiles", role: "group", "aria-label": `the sequence of ${unitsOf(stream)}` });
  const shown = stream.tokens.slice(0, MOST_TILES).map((token, number) => {
    const button = add(row, "button", { type: "button", class: "tile-chip", "aria-label": token });
    if (number >= first) addTile(button, stream, number - first);
    else add(button, "span", { class: "no-place" }, token.split(" ")[0]);
    add(button, "span", { class: "id" }, number < first ? "" : String(number - first));
    button.addEventListener("click", () => choose({ [names.token]: number, key: null }));
    return button;
  });
  if (isPainted(scene) && shown.length === stream.tokens.length) addLastPixel(row, place, stream);
  if (shown.length < stream.tokens.length) add(place, "p", { class: "hint" }, `The first ${MOST_TILES} of ${stream.tokens.length} are drawn here.`);
  follow([names.token], () => {
    const token = state[names.token];
    shown.forEach((button, number) => {
      button.classList.toggle("chosen", number === token);
      button.setAttribute("aria-pressed", number === token);
    });
    cut.frame([token - first], "of-query");
    said.textContent = `${stream.tokens[token]}${whereIs(stream, token)}${colourAt(scene, stream, token)}`;
  });
}

// The colour that a pixel has, if tokens are colours.
function colourAt(scene, { picture, tokens }, token) {
  if (picture.unit !== "pixel" || token < picture.num_extra) return "";
  return `: ${scene.predictions[token - picture.num_extra].actual}`;
}

// No later pixel is predicted from it, so it is never read.
function addLastPixel(row, place, stream) {
  const last = placesIn(stream) - 1, tile = add(row, "span", { class: "tile-chip unread" });
  addTile(tile, stream, last);
  add(tile, "span", { class: "id" }, String(last));
  add(place, "p", { class: "hint" }, `Pixel ${last}, the last one, is only predicted: nothing comes after it, so the model never reads it.`);
}

// The number of each cell or, where cells are too small for that, of every n-th.
function numberCells({ svg, cells, across, down, columns }) {
  const size = Math.max(9, Math.min(12, across / 2.8, down / 1.8)), letters = String(cells.length - 1).length;
  const [every, everyRow] = [Math.ceil((0.75 * size * letters + 4) / across), Math.ceil((size + 3) / down)];
  cells.forEach((_, place) => {
    const [row, column] = [Math.floor(place / columns), place % columns];
    if (row % everyRow || column % every) return;
    add(svg, "text", { class: "place-number", x: column * across + 3, y: row * down + size + 1 }, String(place)).style.fontSize = `${size}px`;
  });
}
