// Counts in bins, from top to bottom.

pictures.histogram = (place, { x, bins }) => {
  const first = bins.findIndex(({ count }) => count);
  const last = bins.findLastIndex(({ count }) => count);
  const shown = bins.slice(first, last + 1);
  const width = Math.min(560, place.clientWidth || 560), line = 24;
  const svg = add(place, "svg", { width, height: line * shown.length + 32, role: "img" });
  const most = Math.max(...shown.map(({ count }) => count));
  add(svg, "text", { class: "name", x: 0, y: 14 }, x);
  shown.forEach((bin, n) => {
    const y = 26 + line * n;
    const name = bin.to === null ? `over ${number(bin.from)}` : `${number(bin.from)} to ${number(bin.to)}`;
    const long = (width - 190) * (bin.count / most);
    add(svg, "text", { x: 104, y: y + 15, "text-anchor": "end" }, name);
    add(svg, "rect", { class: "amount", x: 112, y: y + 2, width: Math.max(long, 1), height: line - 6 });
    add(svg, "text", { x: 118 + long, y: y + 15 }, number(bin.count));
  });
};
