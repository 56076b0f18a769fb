// One word in several sentences: the ways of its vectors through the layers, and how alike they are.

// For eyes that do not tell red from green, too (Okabe and Ito).
const USE_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6b00", "#777777"];

function drawContexts(place, found, { embeddings }) {
  const { word, names, cosine, map, map_share: share } = found;
  add(place, "h3", {}, `${quoted(word)} in ${names.length} places`);
  add(place, "p", { class: "hint" }, `Before the first layer, the vectors of a word differ only by its ${embeddings?.entry.adds_positions ? "position and its spelling" : "spelling"}. Each layer adds something of its context, and the vectors diverge.`);
  const grid = add(place, "div", { class: "side uses" });
  const box = addFigure(grid, { name: `${quoted(word)} in ${names.length} places`, caption: `Directions of its vectors from the input to the last layer (large), on a map that explains ${percent(share, 0)} of their variance (PCA).` });
  const groups = drawUses(box, names, map);
  const list = add(grid, "div", { class: "list" });
  const rows = add(list, "ol", { class: "use-names" });
  const said = add(list, "p", { class: "said", "aria-live": "polite" });
  names.forEach((name, number) => {
    const row = add(rows, "li", { tabindex: 0, dir: "auto" });
    add(row, "span", { class: "use-mark" }).style.background = USE_COLOURS[number % USE_COLOURS.length];
    row.append(` ${short(name, 60)}`);
    const tell = () => {
      groups.forEach((group, n) => group.classList.toggle("faint", n !== number));
      const last = cosine.at(-1)[number];
      const others = last.map((value, n) => ({ value, n })).filter(({ n }) => n !== number).sort((a, b) => b.value - a.value);
      said.textContent = `After the last layer: ${others.map(({ value, n }) => `${n + 1}: ${value.toFixed(3)}`).join(", ")}`;
    };
    row.addEventListener("mouseenter", tell);
    row.addEventListener("focus", tell);
    row.addEventListener("mouseleave", () => groups.forEach((group) => group.classList.toggle("faint", false)));
  });
  drawCosines(list, cosine);
}

function drawUses(figure, names, map) {
  const width = Math.min(560, figure.clientWidth || 560), height = 360, room = 26;
  const svg = add(figure, "svg", { width, height, role: "img", "aria-label": "paths of the word's vectors through the layers" });
  const x = scale(domainOf(map.flat().map(([a]) => a)), [room, width - room]);
  const y = scale(domainOf(map.flat().map(([, b]) => b)), [height - room, room]);
  return names.map((name, number) => {
    const points = map.map((layer) => [x(layer[number][0]), y(layer[number][1])]);
    const colour = USE_COLOURS[number % USE_COLOURS.length];
    const group = add(svg, "g", { class: "use" });
    add(group, "path", { d: pathOf(points), stroke: colour });
    points.forEach(([a, b], n) => {
      const isLast = n === points.length - 1;
      const dot = add(group, "circle", { cx: a, cy: b, r: isLast ? 10 : 3, fill: colour });
      add(dot, "title", {}, `${number + 1}, ${layerName(n)}`);
      if (isLast) add(group, "text", { class: "use-number", x: a, y: b + 4.5, "text-anchor": "middle" }, String(number + 1));
    });
    return group;
  });
}

// The cosine of each two uses, a line for each pair, a place for each layer.
function drawCosines(place, cosine) {
  const pairs = cosine[0].flatMap((_, a) => cosine[0].slice(a + 1).map((__, n) => [a, a + 1 + n]));
  const box = addFigure(place, { name: "How alike they are", caption: "Cosine of each pair, layer by layer." });
  const table = add(add(box, "div", { class: "scroll" }), "table", { class: "cosines" });
  const head = add(add(table, "thead"), "tr");
  add(head, "th", {}, "");
  cosine.forEach((_, layer) => add(head, "th", { scope: "col" }, layerName(layer)));
  const body = add(table, "tbody");
  for (const [a, b] of pairs) {
    const row = add(body, "tr");
    add(row, "th", { scope: "row" }, `${a + 1} and ${b + 1}`);
    cosine.forEach((layer) => {
      const cell = add(row, "td", { class: layer[a][b] < 0 ? "minus" : "plus" }, layer[a][b].toFixed(2));
      cell.style.setProperty("--share", Math.abs(layer[a][b]));
    });
  }
}
