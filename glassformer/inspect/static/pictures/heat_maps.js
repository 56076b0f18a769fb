// Several heat maps side by side, such as the alignments of a few sentences: the stronger the colour,
// the larger the share.

pictures.heat_maps = (place, { maps }) => {
  const grid = add(place, "div", { class: "maps" });
  for (const map of maps) {
    const figure = add(grid, "figure");
    add(figure, "figcaption", { dir: "auto" }, map.title);
    const said = add(figure, "p", { class: "said" });
    const svg = add(add(figure, "div", { class: "scroll" }), "svg", { role: "img" });
    const names = { rows: "translation", columns: "source" };
    const rows = drawHeatMap(svg, map.rows.map(visible), map.columns.map(visible), map.weights, names);
    const show = (row) => {
      const best = map.weights[row].indexOf(Math.max(...map.weights[row]));
      said.textContent = `${isolated(visible(map.rows[row]))} looked at `
        + `${isolated(visible(map.columns[best]))} ${percent(map.weights[row][best])}`;
    };
    rows.forEach((group, row) => group.addEventListener("pointerenter", () => show(row)));
    show(0);
  }
};
pictures.heat_maps.isWide = true;

// Returns the group of each row.
function drawHeatMap(svg, rowLabels, columnLabels, weights, names) {
  const longest = Math.max(rowLabels.length, columnLabels.length);
  const cell = longest > 30 ? 20 : longest > 18 ? 24 : 30;
  const largest = Math.max(0.01, ...weights.flat());
  const columns = columnLabels.map((label) => add(svg, "text", {}, short(label)));
  const widest = (texts) => Math.max(8, ...texts.map((text) => text.getComputedTextLength()));
  const top = widest(columns) * 0.72 + 38; // labels stand at 45 degrees, below the name
  const groups = rowLabels.map((label) => {
    const group = add(svg, "g", { class: "row" });
    return { group, text: add(group, "text", { "text-anchor": "end" }, short(label)) };
  });
  const left = widest(groups.map(({ text }) => text)) + 32;
  columns.forEach((text, column) => {
    const x = left + cell * (column + 0.5);
    text.setAttribute("transform", `translate(${x} ${top - 6}) rotate(-45)`);
  });
  groups.forEach(({ group, text }, row) => {
    const y = top + cell * row;
    text.setAttribute("x", left - 8);
    text.setAttribute("y", y + cell / 2 + 5);
    columnLabels.forEach((label, column) => {
      const spot = { x: left + cell * column + 1, y: y + 1, width: cell - 2, height: cell - 2 };
      const share = weights[row][column];
      add(group, "rect", { class: "tile", ...spot });
      const tile = add(group, "rect", { class: "share", ...spot, "fill-opacity": share / largest });
      add(tile, "title", {}, `${label}: ${percent(share)}`);
    });
  });
  const wide = cell * columns.length, high = cell * groups.length;
  const style = { class: "name", "text-anchor": "middle" };
  add(svg, "text", { ...style, x: left + wide / 2, y: 14 }, names.columns);
  add(svg, "text", { ...style, transform: `translate(12 ${top + high / 2}) rotate(-90)` }, names.rows);
  svg.setAttribute("width", left + wide + Math.max(24, top - 38));
  svg.setAttribute("height", top + high + 4);
  return groups.map(({ group }) => group);
}
