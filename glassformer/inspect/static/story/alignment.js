// Translation: which words of the source each word of the output looked at.

const QUERY_TERM = { text: "query", kind: "query" }, SOURCE_TERM = { text: "key of the source", kind: "key" };

// How a place of the source is scored; a recurrent model has one of the named ways.
const SOURCE_SCORES = {
  "": [QUERY_TERM, " · ", SOURCE_TERM, " / √d"],
  additive: ["v · tanh(W ", QUERY_TERM, " + U ", SOURCE_TERM, ")"],
  dot: [QUERY_TERM, " · ", SOURCE_TERM],
  general: [QUERY_TERM, " · W ", SOURCE_TERM],
};

chapters.push({
  id: "alignment",
  title: "Looking at the source",
  equation: (scene) => ["weights = softmax(", ...SOURCE_SCORES[scene.main.memory_score], ")"],
  note: "Before it writes a token, the model looks at the source. Rows: the token that is written; columns: the source.",
  isShown: (scene) => Boolean(scene.main.cross && !sourceOf(scene).picture),
  draw(place, scene) {
    const source = scene.streams[sourceNumber()], { cross } = scene.main;
    const written = scene.main.tokens.map((token, n) => scene.predictions[n]?.actual ?? `${token} …`);
    const heads = (cross[0].query ?? cross[0].weights).shape[0], said = add(place, "p", { class: "said" });
    const box = addFigure(place, { name: "Looking at the source", of: ["layer", "head"], style: "wide", caption: "The stronger the colour, the larger the weight; each row adds up to 1." });
    follow(["layer", "head", "token"], () => {
      const layer = Math.min(state.layer, cross.length - 1), head = Math.min(state.head, heads - 1);
      const row = crossRowOf(scene.main, layer, head, state.token), best = strongest(row, 3);
      const picks = cross.length > 1 || heads > 1 ? ["In layer ", { pick: "layer", label: "layer", options: countingOptions(cross.length), chosen: layer }, ", head ", { pick: "head", label: "head", options: countingOptions(heads), chosen: head }, ", "] : [];
      const opening = picks.length ? "to write " : "To write ";
      writeProse(said, [...picks, opening, term(quoted(written[state.token]), "query"), " after ", tokenPick(scene.main, "token", state.token, "token of the translation", "query"), ", it looks at ", ...best.flatMap(({ weight, key }, n) => [n ? ", " : "", term(quotedAmong(source.tokens, key), "key"), " ", term(percent(weight), "weight", ref("cross", layer, head, state.token, key))]), "."]);
    });
    follow(["layer", "head"], () => {
      box.textContent = "";
      drawCross(box, { ...scene.main, tokens: written }, source, Math.min(state.layer, cross.length - 1), Math.min(state.head, heads - 1));
    });
  },
});

const NAMED_CELLS = 60; // tokens, up to which each has its name, and the map is scrolled

function drawCross(box, stream, source, layer, head) {
  const rows = crossWeightsOf(stream, layer, head), [count, width] = [rows.length, source.tokens.length];
  let most = 0;
  for (const row of rows) for (const each of row) if (each > most) most = each;
  drawMatrix(add(box, "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "weights to the source" }), {
    rows: count, columns: width, value: (r, c) => rows[r][c] / (most || 1), colour: blues, label: `weights of ${count} tokens of the translation to ${width} tokens of the source`,
    size: Math.max(16, Math.min(30, 520 / width)), most: Math.max(count, width) <= NAMED_CELLS ? Infinity : 620, rowNames: stream.tokens, columnNames: source.tokens,
    at: (query, key) => ref("cross", layer, head, query, key), pick: (token) => choose({ token, key: null }),
    spots: (of) => spotIn(of, "cross", ([l, h, query, key]) => (l === layer && h === head ? [query, key, 1, 1] : null)),
  });
  addScale(box, most, { colour: blues });
  describe(box, rows.slice(0, 40).map((row, n) => `${quoted(stream.tokens[n])} looks most at ${quoted(source.tokens[row.indexOf(Math.max(...row))])} ${percent(Math.max(...row))}`).join("; "));
}
