// Several heat maps side by side, such as the alignments of a few sentences.

pictures.heat_maps = (place, { maps }) => {
  const grid = add(place, "div", { class: "maps" });
  for (const map of maps) {
    const figure = add(grid, "figure");
    add(figure, "figcaption", { dir: "auto" }, map.title);
    const said = add(figure, "p", { class: "said" });
    const svg = add(add(figure, "div", { class: "scroll" }), "svg", { role: "img" });
    const names = { rows: "translation", columns: "source" };
    const drawn = drawHeatMap(svg, map.rows.map(visible), map.columns.map(visible), map.weights, names);
    const show = (row) => {
      const best = map.weights[row].indexOf(Math.max(...map.weights[row]));
      said.textContent = `${isolated(visible(map.rows[row]))} looked at `
        + `${isolated(visible(map.columns[best]))} ${percent(map.weights[row][best])}`;
    };
    drawn.rows.forEach((group, row) => group.addEventListener("pointerenter", () => show(row)));
    show(0);
  }
};
pictures.heat_maps.isWide = true;
