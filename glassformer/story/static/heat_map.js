// A heat map with words at its sides: the stronger the colour, the larger the share.

// Returns the group of each row, the tiles of each row, and the largest share.
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
  const tiles = groups.map(({ group, text }, row) => {
    const y = top + cell * row;
    text.setAttribute("x", left - 8);
    text.setAttribute("y", y + cell / 2 + 5);
    return columnLabels.map((label, column) => {
      const place = { x: left + cell * column + 1, y: y + 1, width: cell - 2, height: cell - 2 };
      add(group, "rect", { class: "tile", ...place });
      const tile = add(group, "rect", { class: "share", ...place });
      add(tile, "title");
      return tile;
    });
  });
  paintTiles(tiles, weights, columnLabels, largest);
  const wide = cell * columns.length, high = cell * groups.length;
  const style = { class: "name", "text-anchor": "middle" };
  add(svg, "text", { ...style, x: left + wide / 2, y: 14 }, names.columns);
  add(svg, "text", { ...style, transform: `translate(12 ${top + high / 2}) rotate(-90)` }, names.rows);
  svg.setAttribute("width", left + wide + Math.max(24, top - 38));
  svg.setAttribute("height", top + high + 4);
  return { rows: groups.map(({ group }) => group), tiles, largest };
}

// The same tiles for other weights.
function paintTiles(tiles, weights, columnLabels, largest) {
  tiles.forEach((row, number) => row.forEach((tile, column) => {
    const share = weights[number][column];
    tile.setAttribute("fill-opacity", share / largest);
    tile.getElementsByTagName("title")[0].textContent = `${columnLabels[column]}: ${percent(share)}`;
  }));
}
