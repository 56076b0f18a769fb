// Chapter 6: beam search. Every candidate, what was kept and what was dropped, and the winner.

const TREE = { wide: 118, high: 24, left: 8, top: 30 };

chapters.push({
  id: "beams",
  title: "Beam search",
  note: "At each step the beams are continued in every way, and only the best continuations are kept. Columns are steps, the best candidate on top; the way to the winner is marked.",
  isShown: (scene) => Boolean(scene.beams),
  draw(place, scene) {
    const { nodes, winner, best, greedy, score, greedy_score: greedyScore } = scene.beams;
    const spelled = (tokens) => isolated(tokens.join(scene.separator) || "(nothing)");
    add(place, "p", {}, `Winner: ${spelled(best)}, score ${number(score)}. Greedy decoding writes ${spelled(greedy)}, score ${number(greedyScore)}.`);
    const said = add(place, "p", { class: "said", "aria-live": "polite" });
    drawTree(add(place, "div", { class: "scroll" }), nodes, new Set(winner), said);
  },
});

// What became of a candidate, in words.
const FATES = {
  kept: "kept: others continue it", complete: "complete: it ends here", outscored: "dropped: others score higher",
  "cut off": "cut off: the search ends here", hopeless: "given up: it can no longer win",
};

function drawTree(place, nodes, winner, said) {
  const steps = Math.max(...nodes.map(({ step }) => step)), columns = Array.from({ length: steps + 1 }, () => []);
  for (const node of [...nodes].sort((a, b) => b.logprob - a.logprob)) columns[node.step].push(node);
  const { wide, high, left, top } = TREE;
  const most = Math.max(...columns.map((column) => column.length));
  const svg = add(place, "svg", { class: "tree", width: left + steps * wide + 20, height: top + most * high + 8, role: "img", "aria-label": "tree of the search" });
  const spot = new Map();
  columns.forEach((column, step) => column.forEach((node, row) => spot.set(node.node, [left + (step - 1) * wide, top + row * high])));
  const lines = add(svg, "g");
  for (let step = 1; step <= steps; step += 1) add(svg, "text", { class: "name", x: left + (step - 1) * wide + 4, y: 16 }, `step ${step}`);
  const boxes = new Map();
  for (const node of nodes) {
    const [x, y] = spot.get(node.node), from = node.parent === null ? null : spot.get(node.parent);
    const kind = winner.has(node.node) ? "winner" : node.fate === "outscored" ? "dropped" : "kept";
    if (from) {
      const [a, b, c] = [from[0] + wide - 26, from[1] + 10, y + 10];
      add(lines, "path", { class: `branch ${kind}`, d: `M${a} ${b}C${a + 14} ${b} ${x - 14} ${c} ${x} ${c}` });
    }
    const group = add(svg, "g", { class: `candidate ${kind}`, tabindex: 0 });
    add(group, "rect", { x, y, width: wide - 26, height: 20, rx: 4 });
    add(group, "text", { x: x + 5, y: y + 14.5 }, short(visible(node.token), 8));
    add(group, "text", { class: "share-text", x: x + wide - 30, y: y + 14.5, "text-anchor": "end" }, node.logprob.toFixed(1));
    boxes.set(node.node, group);
    const tell = () => {
      const way = wayTo(nodes, node);
      said.textContent = `${isolated(way.map(({ token }) => visible(token)).join(" "))}: log-probability ${node.logprob.toFixed(3)}, score ${node.score.toFixed(3)}; ${FATES[node.fate] ?? node.fate}`;
      for (const [id, box] of boxes) box.classList.toggle("on-the-way", way.some((each) => each.node === id));
    };
    group.addEventListener("mouseenter", tell);
    group.addEventListener("focus", tell);
  }
}

function wayTo(nodes, node) {
  const way = [node];
  while (way[0].parent !== null) way.unshift(nodes[way[0].parent]);
  return way;
}
