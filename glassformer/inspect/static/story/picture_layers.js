// Painters: what each layer would paint, and how surprising each pixel was.

// The likeliest colour of every pixel after each layer, and the picture itself.
function drawPaintedLens(place, scene) {
  const { picture } = scene.main, [rows, columns] = picture.grid, [wide, high] = drawnSize(picture.seen_size, 150);
  add(place, "h3", {}, "What each layer would paint");
  add(place, "p", { class: "hint" }, "The likeliest colour of each pixel, given all pixels before it, if the model stopped after this layer.");
  const row = add(addFigure(place, { name: "What each layer would paint", style: "wide" }), "div", { class: "paintings" });
  const show = (title, colours) => {
    const part = add(row, "div", { class: "painting" });
    const canvas = add(part, "canvas", { width: columns, height: rows, role: "img", "aria-label": title });
    Object.assign(canvas.style, { width: `${wide}px`, height: `${high}px` });
    add(part, "p", { class: "over" }, title);
    const lines = Array.from({ length: rows }, (_, r) => colours.slice(r * columns, (r + 1) * columns));
    paint(canvas, lines, (colour) => [...[1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)), 255]);
  };
  scene.lens.forEach((layer, number) => show(layerName(number), layer.map(([[colour]]) => colour)));
  show("the picture", scene.predictions.map(({ actual }) => actual));
}

// The bits of every pixel, over the picture.
function drawSurprisePicture(place, scene) {
  const { picture } = scene.main, bits = scene.predictions.map(({ logprob }) => -logprob / Math.LN2);
  add(place, "h3", {}, "How likely was each pixel?");
  const said = add(place, "p", { class: "said" }), columns = picture.grid[1];
  const tell = (number) => {
    const { actual, logprob, options: [best] } = scene.predictions[number];
    said.textContent = `pixel ${number} (row ${Math.floor(number / columns) + 1}, column ${(number % columns) + 1}): ${actual} had ${percent(Math.exp(logprob))} (${bits[number].toFixed(1)} bits); the model expected ${best.token} with ${percent(best.probability)}`;
  };
  const mean = () => {
    const total = bits.reduce((a, b) => a + b, 0);
    said.textContent = `${number(total / bits.length)} bits per pixel on average.`;
  };
  const box = addFigure(place, { name: "How likely each pixel was", caption: "Bits of each pixel, −log₂ of its probability: the brighter, the more surprising. Point at one to read its number.", style: "snug" });
  const drawn = drawPicture(box, picture, "bits of each pixel; arrow keys choose one", {
    source: picture.seen, isGrey: true,
    act: { point: tell, leave: mean, choose: (spot) => { choose({ token: spot, key: null }); tell(spot); }, current: () => state.token },
  });
  const inBits = (value) => `${value.toFixed(1)} bits`;
  lightUp(drawn, bits, inBits);
  addHeatScale(box, Math.max(...bits), inBits);
  follow(["token"], () => drawn.frame([Math.min(state.token, bits.length - 1)], "of-query"));
  mean();
}
