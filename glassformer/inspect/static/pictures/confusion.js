// A confusion matrix: rows are true labels, columns predicted ones; neighbours are often confused.

const MOST_LISTED = 10;

function cellSize(room, number) {
  return Math.max(11, Math.min(56, Math.floor(room / number)));
}

pictures.confusion = (place, { labels, counts, what }) => {
  const totals = counts.map((row) => row.reduce((sum, count) => sum + count, 0));
  const said = add(place, "p", { class: "said" }, "Point at a cell to read it.");
  const svg = add(add(place, "div", { class: "scroll" }), "svg", { role: "img" });
  const size = Math.min(14, Math.max(9, cellSize((place.clientWidth || 640) - 150, labels.length) - 2));
  svg.style.fontSize = `${size}px`;
  const texts = labels.map((label) => {
    const row = add(svg, "text", { "text-anchor": "end" }, short(label, 20));
    const column = add(svg, "text", {}, short(label, 20));
    return { row, column };
  });
  const widest = Math.max(20, ...texts.map(({ row }) => row.getComputedTextLength()));
  const left = widest + 24, top = widest * 0.8 + 40;
  const cell = cellSize((place.clientWidth || 640) - left - widest * 0.6, labels.length);
  texts.forEach(({ row, column }, n) => {
    row.setAttribute("x", left - 6);
    row.setAttribute("y", top + cell * (n + 0.5) + size * 0.35);
    column.setAttribute("transform", `translate(${left + cell * (n + 0.5) + size * 0.3} ${top - 6}) rotate(-55)`);
  });
  const side = cell * labels.length;
  const names = { class: "name", "text-anchor": "middle" };
  add(svg, "text", { ...names, x: left + side / 2, y: 14 }, "predicted");
  add(svg, "text", { ...names, transform: `translate(12 ${top + side / 2}) rotate(-90)` }, "true");
  counts.forEach((row, n) => row.forEach((count, m) => {
    const share = count / (totals[n] || 1);
    const where = { x: left + cell * m, y: top + cell * n, width: cell - 1, height: cell - 1 };
    add(svg, "rect", { class: "tile", ...where });
    const kind = n === m ? "right" : "wrong";
    if (count) {
      add(svg, "rect", { class: `share ${kind}`, ...where, "fill-opacity": 0.08 + 0.92 * share });
    }
    if (count && cell >= 7 * number(count).length + 6 && cell >= 22) {
      const at = { x: where.x + cell / 2, y: where.y + cell / 2 + 4, "text-anchor": "middle" };
      add(svg, "text", { class: share > 0.55 ? "on-ink" : "", ...at }, number(count));
    }
    const target = add(svg, "rect", { class: "target", ...where, width: cell, height: cell });
    target.addEventListener("pointerenter", () => choose(n, m));
  }));
  svg.setAttribute("width", left + side + widest * 0.6 + 8);
  svg.setAttribute("height", top + side + 8);

  const sentence = (n, m) => {
    const amount = `${number(counts[n][m])} of ${number(totals[n])} ${what}s (${percent(counts[n][m] / (totals[n] || 1))})`;
    return `${isolated(labels[n])} predicted as ${isolated(labels[m])}: ${amount}`;
  };
  function choose(n, m) {
    said.textContent = sentence(n, m);
    texts.forEach(({ row, column }, k) => {
      row.classList.toggle("chosen", k === n);
      column.classList.toggle("chosen", k === m);
    });
  }

  const wrong = counts.flatMap((row, n) => row.map((count, m) => ({ n, m, count })))
    .filter(({ n, m, count }) => n !== m && count)
    .sort((a, b) => b.count - a.count);
  if (!wrong.length) return;
  choose(wrong[0].n, wrong[0].m);
  add(place, "p", { class: "hint" }, "Most frequent confusions:");
  const list = add(place, "ol", { class: "plain" });
  for (const { n, m } of wrong.slice(0, MOST_LISTED)) add(list, "li", {}, sentence(n, m));
};
