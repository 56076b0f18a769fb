// Attention as maps over the picture: a place looks (left), and the places that it looks at light up
// (right). All heads at a glance, for the place that looks.

chapters.push({
  id: "seeing",
  title: "How patches look at each other",
  note: "Before a word is written, the encoder reads the picture. In every layer, every head lets each patch look at others. Point at a patch, or choose a head.",
  isShown: (scene) => picturesOf(scene).some((stream) => stream !== scene.main && stream.layers),
  draw(place, scene) {
    for (const stream of picturesOf(scene)) if (stream !== scene.main && stream.layers) drawLooking(place, scene, stream);
  },
});

// The chapter on attention, of a model that reads nothing but the picture.
function drawPictureAttention(place, scene) {
  drawLooking(place, scene, scene.main);
  if (scene.rollout) drawRollout(place, scene);
  add(place, "p", { class: "hint honest" }, "A weight is the share of a value in a mean, not its importance for the answer: the value may be small, and it already mixes what earlier layers took up. Compare with “Switch a head off” below.");
}

function drawLooking(place, scene, stream) {
  const names = chosenNames(scene, stream), { picture } = stream, first = picture.num_extra;
  state[names.token] ??= first + middleOf(picture.grid);
  const layout = add(place, "div", { class: "attention" });
  useImage(layout, "--picture", picture.image);
  drawMapThumbs(add(layout, "div", { class: "heads" }), stream, names);
  const view = add(layout, "div", { class: "one-head" });
  const said = add(view, "p", { class: "said", "aria-live": "polite" });
  const box = addFigure(view, { name: "Where one head looks", of: names.token === "token" ? ["layer", "head", "token"] : [], style: "snug", caption: "Colours go from 0 to the largest weight of the map, whose place has a white frame." });
  const pair = add(box, "div", { class: isStrip(picture) ? "pair stacked" : "pair" });
  const asking = add(pair, "div"), answering = add(pair, "div");
  add(asking, "p", { class: "over of-query" }, "query: who looks");
  add(answering, "p", { class: "over of-key" }, "keys: where it looks");
  const lookAs = (token) => token < stream.tokens.length && choose({ [names.token]: token, key: null });
  const asks = drawPicture(asking, picture, "who looks; arrow keys choose a place", {
    act: { point: (number) => lookAs(number + first), choose: (number) => lookAs(number + first), current: () => state[names.token] - first },
  });
  asks.svg.classList.add("ruled");
  const room = add(answering, "div"), extras = addExtras(asking, answering, stream, lookAs);
  let answers = null, drawnFor = null;
  follow([names.layer, names.head, names.token], () => {
    const layer = state[names.layer], grid = gridOf(stream, layer);
    if (drawnFor !== grid.join()) {
      room.textContent = "";
      answers = drawAnswers(room, stream, names, grid, (number) => {
        const weights = shownWeights(stream, names);
        said.textContent = `${nameIn(stream, state[names.layer], number)} gets ${percent(weights[number], 2)}`;
      }, () => { said.textContent = lookInWords(stream, names); });
      drawnFor = grid.join();
    }
    const weights = shownWeights(stream, names), places = weights.slice(first);
    lightUp(answers, seenPlaces(stream, layer, state[names.head], state[names.token]));
    answers.scale.textContent = "";
    addHeatScale(answers.scale, Math.max(...places), percent, hiddenKeys(stream));
    asks.frame(placesOf(stream, layer, state[names.token]), "of-query");
    const own = positionIn(stream, layer, state[names.token]) - first;
    answers.frame([own], "of-query");
    answers.frame([places.indexOf(Math.max(...places))], "of-key");
    extras.forEach(({ query, key }, number) => {
      query.classList.toggle("chosen", number === state[names.token]);
      query.setAttribute("aria-pressed", number === state[names.token]);
      key.textContent = `${stream.tokens[number]} ${percent(weights[number])}`;
    });
    said.textContent = lookInWords(stream, names);
  });
}

function shownWeights(stream, names) {
  const layer = state[names.layer];
  return weightsAt(stream, layer, state[names.head], positionIn(stream, layer, state[names.token]));
}

// The weights of all places as a token looks; null where a mask hides them. The last pixel is never
// read: no mask has to hide it, but it cannot be looked at, either.
function seenPlaces(stream, layer, head, token) {
  const query = positionIn(stream, layer, token), [rows, columns] = gridOf(stream, layer), first = stream.picture.num_extra;
  const weights = maskedRow(stream, layer, query, weightsAt(stream, layer, head, query)).slice(first);
  return Array.from({ length: rows * columns }, (_, place) => weights[place] ?? null);
}

function drawAnswers(room, stream, names, grid, tell, silent) {
  const isMain = names.token === "token", first = stream.picture.num_extra;
  const answers = drawPicture(room, stream.picture, "what it looks at, the brighter the more", {
    grid, isGrey: true,
    act: { point: (number) => tell(number + first), leave: silent, choose: (number) => { if (isMain) choose({ key: number + first }); } },
  });
  answers.scale = add(room, "div");
  return answers;
}

// The places of the finest grid that a token stands for in a layer.
function placesOf(stream, layer, token) {
  if (!stream.layers[layer].grid) return [token - stream.picture.num_extra];
  return placesAt(stream, layer, positionIn(stream, layer, token));
}

// Those that share a position of a layer with a grid of its own.
function placesAt(stream, layer, position) {
  const [rows, columns] = stream.picture.grid;
  return Array.from({ length: rows * columns }, (_, n) => n).filter((n) => positionIn(stream, layer, n) === position);
}

// Tokens without a place, such as the class token: a button to look as, and its weight as a key.
function addExtras(asking, answering, stream, lookAs) {
  return stream.tokens.slice(0, stream.picture.num_extra).map((name, number) => {
    const query = add(asking, "button", { type: "button", class: "extra of-query" }, name);
    query.addEventListener("click", () => lookAs(number));
    query.addEventListener("mouseenter", () => lookAs(number));
    return { query, key: add(answering, "span", { class: "extra of-key" }, name) };
  });
}

function lookInWords(stream, names) {
  const layer = state[names.layer], token = state[names.token];
  const order = shownWeights(stream, names).map((weight, key) => ({ weight, key })).sort((a, b) => b.weight - a.weight);
  const parts = order.slice(0, 3).filter(({ weight }, n) => n === 0 || weight > 0.01)
    .map(({ weight, key }) => `${nameIn(stream, layer, key)} ${percent(weight)}`);
  return `Layer ${layer}, head ${state[names.head]}: ${nameIn(stream, layer, positionIn(stream, layer, token))} looks at ${parts.join(", ")}`;
}

// A small map over the picture for each head; rows are layers, which may have different heads.
function drawMapThumbs(place, stream, names) {
  const most = Math.max(...stream.layers.map(({ query }) => query.shape[0]));
  const box = addFigure(place, { name: "All heads over the picture", of: names.token === "token" ? ["token"] : [], caption: `Rows: layers; columns: heads. Each map shows where the chosen ${oneOf(stream)} looks. ${THUMB_RULE}` });
  const table = add(add(box, "div", { class: "scroll" }), "table", { class: "thumbs over-picture" });
  const head = add(add(table, "thead"), "tr");
  add(head, "td", {}, "");
  for (let n = 0; n < most; n += 1) add(head, "th", { scope: "col" }, String(n));
  const body = add(table, "tbody"), size = drawnSize(stream.picture.size, 56);
  const thumbs = stream.layers.flatMap((parts, layer) => {
    const row = add(body, "tr");
    add(row, "th", { scope: "row" }, String(layer));
    return Array.from({ length: parts.query.shape[0] }, (_, number) => ({
      layer, number,
      ...addPlaceThumb(add(row, "td"), gridOf(stream, layer), size, `layer ${layer}, head ${number}`, () => choose({ [names.layer]: layer, [names.head]: number, key: null })),
    }));
  });
  follow([names.token], () => {
    const token = state[names.token];
    for (const { paint: paintThis, layer, number } of thumbs) {
      later(() => { // unless the reader has moved on
        if (state[names.token] !== token) return;
        paintThis(seenPlaces(stream, layer, number, token));
      });
    }
  });
  follow([names.layer, names.head], () => thumbs.forEach(({ button, layer, number }) => {
    button.classList.toggle("chosen", layer === state[names.layer] && number === state[names.head]);
  }));
}

// Attention followed through all layers, from the answer to the patches.
function drawRollout(place, scene) {
  const { picture } = scene.main, weights = scene.rollout.flat();
  add(place, "h3", {}, "Attention followed through all layers");
  const side = add(place, "div", { class: isStrip(picture) ? "pair stacked" : "pair" });
  const box = addFigure(side, { name: "Attention followed through all layers", caption: "Colours go from 0 to the largest share, whose place has a white frame; all shares add up to 1." }), words = add(side, "div", { class: "beside" });
  add(words, "p", { class: "hint" }, "Rollout follows attention from the classified vector back to the picture. In each layer, half of a place's vector counts as its own, and half as the mean of where its heads look.");
  const said = add(words, "p", { class: "said", "aria-live": "polite" }), most = Math.max(...weights);
  const columns = scene.rollout[0].length;
  const tell = (number) => { said.textContent = `row ${Math.floor(number / columns) + 1}, column ${(number % columns) + 1} contributes ${percent(weights[number], 2)}`; };
  const drawn = drawPicture(box, picture, "rollout over the picture", { grid: [scene.rollout.length, columns], isGrey: true, act: { point: tell } });
  lightUp(drawn, weights);
  drawn.frame([weights.indexOf(most)], "of-key");
  addHeatScale(box, most);
  tell(weights.indexOf(most));
}
