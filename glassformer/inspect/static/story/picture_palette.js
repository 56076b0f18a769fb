// Painters: the palette, and with which probability each of its colours was chosen for a pixel.

const MOST_COLOURS = 4096; // of a palette that is drawn
const LEAST_SIDE = 0.16; // of a square, in cells: smaller ones would not be seen

// Log-probabilities of all colours at a pixel; null where the page does not carry them.
function colourLogs({ palette, predictions }, at) {
  const { logprobs, colours } = palette;
  if (logprobs) return logprobs.data.subarray(at * colours.length, (at + 1) * colours.length);
  const known = new Map(predictions[at].options.map(({ token, probability }) => [token, Math.log(probability)]));
  return colours.map((name) => known.get(name) ?? null);
}

declare("colour", {
  sources: (at) => [ref("token", mainStream(), at)],
  lines(at, id) {
    const { colours, actual } = scene.palette, log = colourLogs(scene, at)[id], total = scene.totals[at];
    const title = [`probability of ${colours[id]} for pixel ${at}`];
    if (log === null) return [title, [`not among the ${scene.predictions[at].options.length} likeliest colours, which are all that this page carries of so large a picture`]];
    const came = id === actual[at] ? [[`This colour came: −log₂ p = `, term(`${(-log / Math.LN2).toFixed(2)} bits`, "result")]] : [];
    return [title, [`e^logit / Σ e^logit = e^${inSum(log + total)} / e^${inSum(total)} = `, term(percent(Math.exp(log), 2), "result")], ...came];
  },
});

// What the model had read, and the colours that it chose from for the next pixel.
function drawPalette(place, scene) {
  const { main: { picture }, palette: { colours, logprobs, actual } } = scene, last = actual.length - 1;
  const at = () => Math.min(state.token, last), columns = picture.grid[1];
  add(place, "h3", {}, "The colours that a pixel is chosen from");
  const pair = add(place, "div", { class: "pair palette" }), left = addFigure(pair, { name: "What the model had read", of: ["token"], caption: "Point at a pixel. Veiled: what the model did not know yet when it chose this pixel." });
  const pick = (spot) => choose({ token: spot, key: null });
  const read = drawPicture(left, picture, "what the model had read; arrow keys choose a pixel", { source: picture.seen, act: { point: pick, choose: pick, current: at } });
  const beside = add(pair, "div"), said = add(beside, "p", { class: "said", "aria-live": "polite" });
  const right = addFigure(beside, { name: "The palette", of: ["token"] });
  const field = colours.length <= MOST_COLOURS ? drawField(right, colours) : null;
  if (!field) add(right, "p", { class: "hint" }, `The palette has ${number(colours.length)} colours, too many to draw.`);
  else setCaption(right, `All ${number(colours.length)} colours of the palette, in its order. The area of a square is the probability of its colour${logprobs ? "" : " (this picture is too large for the page to carry more than the likeliest)"}; the largest fills its cell, and less than ${percent(LEAST_SIDE ** 2, 0)} of it is a dot. Framed: the colour that came.`);
  follow(["token"], () => {
    const now = at(), logs = colourLogs(scene, now), { actual: name, logprob } = scene.predictions[now];
    read.cells.forEach((cell, spot) => cell.setAttribute("fill-opacity", spot >= now ? 0.8 : 0));
    read.frame([now], "of-query");
    field?.show(now, logs, actual[now]);
    said.textContent = "";
    add(said, "span", { class: "swatch of-palette" }).style.background = name;
    writeProse(add(said, "span"), [
      `Pixel ${now} (row ${Math.floor(now / columns) + 1}, column ${(now % columns) + 1}), after ${now === 1 ? "one pixel" : `${now} pixels`}: the colour was ${name}. Its probability was `, { text: percent(Math.exp(logprob)), of: ref("colour", now, actual[now]) },
      ", a surprise of −log₂ p = ", { text: `${(-logprob / Math.LN2).toFixed(2)} bits`, of: ref("surprise", now) }, `.${logprobs ? expected(logs) : ""}`,
    ]);
  });
}

// The entropy: the surprise that the model itself expected.
function expected(logs) {
  const bits = logs.reduce((sum, log) => sum - Math.exp(log) * log, 0) / Math.LN2;
  return ` The model expected ${bits.toFixed(2)} bits: it was as unsure as among ${number(Number((2 ** bits).toFixed(1)))} equally likely colours.`;
}

function drawField(parent, colours) {
  const columns = 2 ** Math.ceil(Math.log2(Math.sqrt(2 * colours.length))), side = Math.min(56, 448 / columns), rows = Math.ceil(colours.length / columns);
  const svg = add(parent, "svg", { class: "field", viewBox: `0 0 ${columns * side} ${rows * side}`, role: "group", "aria-label": "the palette; arrow keys move from colour to colour" });
  svg.style.maxWidth = `${columns * side}px`;
  add(svg, "rect", { class: "field-ground", width: columns * side, height: rows * side });
  const tiles = colours.map((colour, id) => {
    const tile = add(svg, "g", { class: "colour", role: "img", transform: `translate(${(id % columns) * side} ${Math.floor(id / columns) * side})` });
    add(tile, "rect", { class: "under", width: side, height: side });
    return { tile, square: add(tile, "rect", { fill: colour }) };
  });
  const frame = add(svg, "rect", { class: "came", width: side, height: side, rx: side / 8 });
  rove(svg, tiles.map(({ tile }) => tile), columns);
  return {
    show(at, logs, came) {
      const most = Math.max(...logs);
      tiles.forEach(({ tile, square }, id) => {
        const share = logs[id] === null ? 0 : Math.exp((logs[id] - most) / 2), size = side * 0.9 * Math.max(LEAST_SIDE, share);
        for (const name of ["x", "y"]) square.setAttribute(name, (side - size) / 2);
        for (const name of ["width", "height"]) square.setAttribute(name, size);
        tile.setAttribute("aria-label", `${colours[id]}${logs[id] === null ? "" : ` ${percent(Math.exp(logs[id]))}`}`);
        means(tile, "colour", at, id);
      });
      frame.setAttribute("transform", tiles[came].tile.getAttribute("transform"));
    },
  };
}
