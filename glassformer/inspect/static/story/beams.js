// Chapter 6: beam search. Every candidate, what was kept and what was dropped, and the winner.

const TREE = { wide: 118, high: 24, left: 8, top: 30 };

chapters.push({
  id: "beams",
  title: "Beam search",
  equation: ["score = Σ log p(token) / number of tokens"],
  note: "At each step, every beam is continued with every token, and only the best continuations are kept. Columns are steps, the best candidate on top; the path to the winner is marked.",
  isShown: (scene) => Boolean(scene.beams || scene.searchBeams),
  draw(place, scene) {
    const box = add(place, "div");
    if (scene.beams) return drawSearch(box, scene, scene.beams);
    add(box, "p", { class: "hint" }, "Searching …");
    return scene.searchBeams((found) => {
      box.textContent = "";
      drawSearch(box, scene, found);
      completeFigures(box);
    });
  },
});

function drawSearch(place, scene, found) {
  const { nodes, winner, best, greedy, score, greedy_score: greedyScore } = found;
  scene.shownBeams = found;
  const spelled = (tokens) => `“\u2068${short(spaced(tokens.join(scene.separator)), 160)}\u2069”`;
  const same = best.join("\n") === greedy.join("\n") ? "Greedy decoding writes the same." : `Greedy decoding writes ${spelled(greedy)}, score ${number(greedyScore)}.`;
  add(place, "p", { class: "said" }, `The winner is ${spelled(best)}, score ${number(score)}. ${same}`);
  const box = addFigure(place, { name: "Tree of the beam search", style: "wide", caption: "Each number is the log-probability of the text up to there. Purple: the winner. Dashed: dropped, because others scored higher." });
  drawTree(add(box, "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "tree of the search" }), nodes, new Set(winner));
}

// A text whose line breaks, and spaces at its ends, can be seen.
function spaced(text) {
  if (!text.trim()) return visible(text);
  const [, before, inner, after] = /^(\s*)(.*?)(\s*)$/s.exec(text), shown = (space) => (space ? visible(space) : "");
  return shown(before) + inner.split(/([\n\r\t])/).map((part) => (part ? visibleInside(part) : "")).join("") + shown(after);
}

// A part of a text keeps its spaces; a line break or a tab has its sign.
const visibleInside = (part) => (part.trim() ? part.replace(/\S+/g, visible) : visible(part).replaceAll("␣", " "));

// What became of a candidate, in words.
const FATES = {
  kept: "kept: others continue it", complete: "complete: it ends here", outscored: "dropped: others score higher",
  "cut off": "cut off: the search ends here", hopeless: "given up: it can no longer win",
};

function drawTree(place, nodes, winner) {
  const steps = Math.max(...nodes.map(({ step }) => step)), columns = Array.from({ length: steps + 1 }, () => []);
  for (const node of [...nodes].sort((a, b) => b.logprob - a.logprob)) columns[node.step].push(node);
  const { wide, high, left, top } = TREE;
  const most = Math.max(...columns.map((column) => column.length));
  const svg = add(place, "svg", { class: "tree", width: left + steps * wide + 20, height: top + most * high + 8, role: "group", "aria-label": "tree of the search; arrow keys move from candidate to candidate" });
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
    const group = means(add(svg, "g", { class: `candidate ${kind}`, role: "img", "aria-label": `step ${node.step}: ${visible(node.token)}, log-probability ${node.logprob.toFixed(2)}, ${node.fate}` }), "beam", node.node);
    add(group, "rect", { x, y, width: wide - 26, height: 20, rx: 4 });
    add(group, "text", { x: x + 5, y: y + 14.5 }, short(visible(node.token), 8));
    add(group, "text", { class: "share-text", x: x + wide - 30, y: y + 14.5, "text-anchor": "end" }, node.logprob.toFixed(1));
    boxes.set(node.node, group);
  }
  rove(svg, columns.flat().map(({ node }) => boxes.get(node)), 1);
}

function wayTo(nodes, node) {
  const way = [node];
  while (way[0].parent !== null) way.unshift(nodes[way[0].parent]);
  return way;
}
