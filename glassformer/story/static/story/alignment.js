// Translation: which words of the source each word of the output looked at.

chapters.push({
  id: "alignment",
  title: "Looking at the source",
  equation: ["weights = softmax(", { text: "query", kind: "query" }, " · ", { text: "key of the source", kind: "key" }, " / √d)"],
  note: "Each token of the translation attends to the source as well. Rows: the token that was read last when the next one was written; columns: the source.",
  isShown: (scene) => Boolean(scene.main.cross && !sourceOf(scene).picture),
  draw(place, scene) {
    const source = scene.streams[sourceNumber()], { cross } = scene.main;
    const heads = (cross[0].query ?? cross[0].weights).shape[0], said = add(place, "p", { class: "said" });
    const box = addFigure(place, { name: "Looking at the source", of: ["layer", "head"], style: "wide", caption: "The stronger the colour, the larger the weight; each row adds up to 1." });
    follow(["layer", "head", "token"], () => {
      const layer = Math.min(state.layer, cross.length - 1), head = Math.min(state.head, heads - 1);
      const row = crossRowOf(scene.main, layer, head, state.token), best = strongest(row, 3);
      const picks = cross.length > 1 || heads > 1 ? ["In layer ", { pick: "layer", label: "layer", options: countingOptions(cross.length), chosen: layer }, ", head ", { pick: "head", label: "head", options: countingOptions(heads), chosen: head }, ", "] : [];
      writeProse(said, [...picks, tokenPick(scene.main, "token", state.token, "token of the translation", "query"), " looks at ", ...best.flatMap(({ weight, key }, n) => [n ? ", " : "", term(quoted(source.tokens[key]), "key"), " ", term(percent(weight), "weight", ref("cross", layer, head, state.token, key))]), "."]);
    });
    follow(["layer", "head"], () => {
      box.textContent = "";
      drawCross(box, scene.main, source, Math.min(state.layer, cross.length - 1), Math.min(state.head, heads - 1));
    });
  },
});

function drawCross(box, stream, source, layer, head) {
  const rows = crossWeightsOf(stream, layer, head), [count, width] = [rows.length, source.tokens.length];
  let most = 0;
  for (const row of rows) for (const each of row) if (each > most) most = each;
  const isNamed = Math.max(count, width) <= 2 * NAMED_ROWS;
  drawMatrix(add(box, "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "weights to the source" }), {
    rows: count, columns: width, value: (r, c) => rows[r][c] / (most || 1), colour: blues, label: `weights of ${count} tokens of the translation to ${width} tokens of the source`,
    size: Math.max(16, Math.min(30, 520 / width)), most: isNamed ? Infinity : 620, rowNames: isNamed ? stream.tokens : null, columnNames: isNamed ? source.tokens : null,
    at: (query, key) => ref("cross", layer, head, query, key), pick: (token) => choose({ token, key: null }),
    spots: (of) => spotIn(of, "cross", ([l, h, query, key]) => (l === layer && h === head ? [query, key, 1, 1] : null)),
  });
  describe(box, rows.slice(0, 40).map((row, n) => `${quoted(stream.tokens[n])} looks most at ${quoted(source.tokens[row.indexOf(Math.max(...row))])} ${percent(Math.max(...row))}`).join("; "));
}
