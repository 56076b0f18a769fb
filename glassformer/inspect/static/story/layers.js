// Chapter 4: layer by layer. What each layer would predict, how vectors move, which heads matter.

const LENS_WINDOW = 40, MOST_PATHS = 80;

// The sums of one block, each with its norm before or after it.
function blockEquation(stream) {
  const attention = { text: "attention", kind: "output" }, parts = [[attention], ["feed-forward"]];
  if (stream.cross) parts.splice(1, 0, [attention, ` to the ${stream.memory === "image" ? "picture" : "source"}`]);
  return parts.flatMap((part, n) => [
    n ? ";  x ← " : "x ← ", ...(stream.wiring.pre_norm ? ["x + ", ...part, "(norm(x))"] : ["norm(x + ", ...part, "(x))"]),
  ]);
}

chapters.push({
  id: "layers",
  title: "Layer by layer",
  equation: ({ main }) => main.wiring && blockEquation(main),
  note: ({ main, lens }) => {
    const sum = main.wiring?.pre_norm === false ? " and normalises the sum" : "", grids = new Set((main.layers ?? []).map(({ grid }) => grid?.join("×")));
    const merged = grids.size > 1 ? ` Between stages, four neighbouring places become one: the grids are ${[...grids].join(", then ")}.` : "";
    return `Each layer adds to the vector of every ${oneOf(main)}${sum}.${merged}${lens ? " The lens reads these vectors as if the layer were the last." : ""}`;
  },
  isShown: (scene) => Boolean(scene.path || scene.effects),
  draw(place, scene) {
    if (scene.lens && scene.predicts === "whole") drawLabelLens(place, scene);
    else if (scene.lens && scene.main.picture) drawPaintedLens(place, scene);
    else if (scene.lens) drawLens(place, scene);
    else if (scene.logitsWithout && scene.predicts === "whole") add(place, "p", { class: "hint" }, "The lens of a text that is typed here is not shown: labels are read from all tokens at once.");
    else if (scene.logitsWithout) add(place, "p", { class: "hint" }, `The lens of a text that is typed here is shown for up to ${MOST_LENS} tokens.`);
    if (scene.path) drawPath(place, scene);
    if (scene.contexts) drawContexts(place, scene.contexts, scene);
    drawSwitches(place, scene);
  },
});

const layerName = (number) => (number === 0 ? "input" : `layer ${number - 1}`);
const angleOf = (cosine) => (180 / Math.PI) * Math.acos(Math.max(-1, Math.min(1, cosine)));

// --- the lens ---

function drawLens(place, scene) {
  add(place, "h3", {}, "What each layer would predict");
  const said = add(place, "p", { class: "said" });
  const box = addFigure(place, { name: "What each layer would predict", of: ["token"], style: "wide", caption: "Columns are tokens, rows are layers, the last one on top. A cell has the likeliest token; the stronger its colour, the larger the probability. Bold: above 50%." });
  let drawn = null;
  follow(["token"], () => {
    const around = windowAround(state.token, scene.main.tokens.length, LENS_WINDOW);
    if (!drawn || state.token < drawn.first || state.token >= drawn.last) drawn = drawLensTable(box, scene, around);
    drawn.cells.forEach(({ cell, token }) => cell.classList.toggle("chosen", token === state.token));
    const room = box.querySelector(".scroll"), { cell: chosen } = drawn.cells.find(({ token }) => token === state.token);
    const [left, right] = [chosen.offsetLeft, chosen.offsetLeft + chosen.offsetWidth];
    if (left < room.scrollLeft + 80 || right > room.scrollLeft + room.clientWidth) room.scrollLeft = left - room.clientWidth / 2;
    const [name, p] = scene.lens.at(-1)[state.token][0];
    const best = scene.lens.findIndex((layer) => layer[state.token][0][0] === name);
    const isFound = scene.lens.slice(best).every((layer) => layer[state.token][0][0] === name);
    writeProse(said, ["At ", tokenPick(scene.main, "token", state.token, "token", "query"), ` the last layer finds ${quoted(name)} likeliest, with `, term(percent(p), "", ref("lens", scene.lens.length - 1, state.token)), isFound && best < scene.lens.length - 1 ? `; it leads from ${layerName(best)} on.` : "."]);
  });
}

function drawLensTable(box, scene, [first, last]) {
  box.textContent = "";
  const count = scene.main.tokens.length;
  if (last - first < count) add(box, "p", { class: "hint" }, `Tokens ${first} to ${last - 1} of ${count}: those around the chosen one.`);
  const table = add(add(box, "div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "predictions of all layers" }), "table", { class: "lens" });
  const head = add(add(table, "thead"), "tr"), body = add(table, "tbody"), cells = [];
  add(head, "td", {}, "");
  for (let token = first; token < last; token += 1) add(head, "th", { dir: "auto", scope: "col" }, short(visible(scene.main.tokens[token]), 12));
  for (let layer = scene.lens.length - 1; layer >= 0; layer -= 1) { // the last layer on top
    const row = add(body, "tr");
    add(row, "th", { scope: "row" }, layerName(layer));
    for (let token = first; token < last; token += 1) {
      const [name, share] = scene.lens[layer][token][0];
      const cell = means(add(row, "td", { dir: "auto", "data-acts": "" }, short(visible(name), 12)), "lens", layer, token);
      cell.style.setProperty("--share", share);
      cell.classList.toggle("sure", share > 0.5);
      pressable(cell, () => choose({ token, key: null }));
      cells.push({ cell, token });
    }
  }
  rove(body, cells.map(({ cell }) => cell), last - first, Math.max(0, cells.findIndex(({ token }) => token === state.token)));
  return { first, last, cells };
}

// --- paths ---

// The way of every token through the layers on a map; the chosen one stands out.
function drawPath(place, scene) {
  const { places, share, norms, similar } = scene.path;
  add(place, "h3", {}, "How the vectors move");
  const grid = add(place, "div", { class: "side" });
  const box = addFigure(grid, { name: "How the vectors move", of: ["token"], caption: `Directions of all states on a map that explains ${percent(share, 0)} of their variance (PCA); each line leads from the input (small) to the last layer (large).` });
  const stand = drawPaths(box, scene, places);
  const list = addFigure(grid, { name: "How much each layer turns a token", of: ["token"] });
  follow(["token"], () => {
    stand(state.token);
    list.textContent = "";
    writeProse(add(list, "p", { class: "said" }), [tokenPick(scene.main, "token", state.token, "token", "query"), ": how much each layer turns it"]);
    drawBars(list, similar.map((row, layer) => {
      const angle = angleOf(row[state.token]);
      return { name: layerName(layer + 1), value: angle, text: `${angle.toFixed(0)}°`, of: ["turn", layer + 1, state.token] };
    }), 90, "layer");
    setCaption(list, `Length of the vector, from input to last layer: ${norms.map((row) => number(row[state.token])).join(" → ")}`);
  });
}

// Returns a function that lets one token stand out.
function drawPaths(box, scene, places) {
  const width = Math.min(560, box.clientWidth || 560), height = 360, room = 26;
  const svg = add(box, "svg", { width, height, role: "group", "aria-label": "paths of the tokens through the layers" });
  if (scene.main.picture) addSource(svg, scene.main, "patches-on-their-way");
  const extent = (axis) => domainOf(places.map((layer) => layer.map((each) => each[axis])).flat());
  const x = scale(extent(0), [room, width - 3 * room]), y = scale(extent(1), [height - room, room]);
  const pointsOf = (token) => places.map((layer) => [rounded(x(layer[token][0])), rounded(y(layer[token][1]))]);
  const count = scene.main.tokens.length;
  if (count <= MOST_PATHS) {
    const groups = scene.main.tokens.map((_, token) => addPath(svg, scene, token, pointsOf(token)));
    rove(svg, groups, 1, state.token);
    keepLabelsApart(groups);
    return (token) => groups.forEach((group, n) => group.classList.toggle("chosen", n === token));
  }
  // Long texts: all other lines are one shape, and only one token has points.
  add(svg, "path", { class: "all-paths", d: scene.main.tokens.map((_, token) => pathOf(pointsOf(token))).join("") });
  const front = add(svg, "g");
  return (token) => {
    front.textContent = "";
    addPath(front, scene, token, pointsOf(token)).classList.toggle("chosen", true);
  };
}

function addPath(parent, scene, token, points) {
  const name = visible(scene.main.tokens[token]), { picture } = scene.main, first = picture?.num_extra ?? 0;
  const isPlace = picture && token >= first;
  const group = add(parent, "g", { class: isPlace ? "path of-place" : "path", role: "button", tabindex: -1, "aria-label": `path of ${short(name, 12)}` });
  add(group, "path", { d: pathOf(points) });
  points.forEach(([a, b], layer) => means(add(group, "circle", { cx: a, cy: b, r: layer === points.length - 1 ? 4.5 : 2.5 }), "state", layer, token));
  const [a, b] = points.at(-1);
  if (isPlace) addCrop(group, scene.main, token - first, "patches-on-their-way", a, b, 12);
  add(group, "text", { x: a + (picture ? 10 : 7), y: b + 4 }, short(name, 12));
  pressable(group, () => choose({ token, key: null }));
  return group;
}

// --- heads switched off ---

// The heads of the text; of a translator, those of the target, of the source and between them.
function drawSwitches(place, shown) {
  if (!shown.effects && !shown.logitsWithout) return;
  add(place, "h3", {}, "Switch a head off");
  const part = add(place, "div");
  shown.foundEffects ??= new Map(); // by who looks at whom, and the number of the prediction
  let drawnAt = null;
  follow(["token"], () => {
    const at = predictionAt(shown);
    if (at === drawnAt) return;
    drawnAt = at;
    part.textContent = "";
    scene.shownEffects = {};
    for (const [n, look] of looksOf(shown).entries()) drawSwitchesOf(add(part, "div"), shown, at, n, look, () => drawnAt === at);
  });
}

function drawSwitchesOf(own, shown, wanted, n, look, isWanted) {
  const carried = n ? shown.more_effects?.[look.name] : shown.effects, group = n ? look.name : undefined;
  const drawn = (effects, at = wanted) => {
    own.textContent = "";
    drawEffects(own, shown, { effects, at }, n, group, look.label);
    completeFigures(own);
    return own;
  };
  const known = carried?.[wanted] ?? shown.foundEffects.get(`${n}/${wanted}`);
  if (known) drawn(known);
  else if (shown.logitsWithout) {
    add(own, "p", { class: "hint" }, "Switching off each head …");
    own.style.minHeight = `${17 + 2 * look.layers.length}rem`; // what follows stays where it is
    effectsOfHeads(shown, (found) => {
      shown.foundEffects.set(`${n}/${wanted}`, found);
      drawn(found);
    }, { at: wanted, group, layers: look.layers, isWanted });
  } else if (carried) {
    const [at] = Object.keys(carried).map(Number);
    add(drawn(carried[at], at), "p", { class: "hint" }, "Switching off every head for every prediction of this text would take too long: this is the prediction at which the page opened.");
  }
}

// 0.037, or 3.7e-5: a table of zeros would say nothing.
const effect = (value) => (value && value < 0.0005 ? value.toExponential(1) : value.toFixed(3));

function drawEffects(place, shown, { effects, at }, look = 0, group = undefined, label = "") {
  const { divergence, change } = effects;
  scene.shownEffects[look] = { ...effects, at };
  const last = shown.predictions[at]?.options[0]; // none: the output is a vector
  const where = { next: "after", same: "at" }[shown.predicts];
  const what = where ? `the prediction ${where} ${quoted(shown.main.tokens[at])}` : last ? "the predicted label" : "the vector of the text";
  if (label) add(place, "h4", {}, `Heads that let ${label.replace(" at ", " look at ")}`);
  if (group === undefined) add(place, "p", { class: "hint" }, `How much ${what} changes if one head contributes nothing. Each number is a run of the model without that head.` + (shown.switchHead ? " Click one to leave it switched off everywhere on this page; click again to bring it back. The chapter “What if” changes other parts of the model." : ""));
  const said = add(place, "p", { class: "said", "aria-live": "polite" });
  const box = addFigure(place, last
    ? { name: "The prediction without each head", caption: "KL divergence in nats between the prediction of the whole model and that without the head. 0: nothing changes." }
    : { name: "The vector of the text without each head", caption: "Cosine distance between the vector of the whole model and that without the head. 0: nothing changes." });
  const table = add(add(box, "div", { class: "scroll" }), "table", { class: "effects" });
  const head = add(add(table, "thead"), "tr");
  add(head, "td", {}, "");
  divergence[0].forEach((_, n) => add(head, "th", { scope: "col" }, `head ${n}`));
  const body = add(table, "tbody"), most = Math.max(1e-9, ...divergence.flat()), cells = [];
  divergence.forEach((row, layer) => {
    const line = add(body, "tr");
    add(line, "th", { scope: "row" }, `layer ${layer}`);
    row.forEach((value, n) => {
      if (value === null) return; // this layer has fewer heads
      cells.push({ cell: addEffect(line, shown, [look, layer, n], group, value / most, effect(value)), layer, head: n, value });
    });
  });
  const tell = ({ layer, head: n }) => {
    if (!last) {
      said.textContent = `Without head ${n} of layer ${layer}: the vector turns by ${angleOf(1 - divergence[layer][n]).toFixed(1)}°`;
      return;
    }
    const after = last.probability * Math.exp(change[layer][n]);
    said.textContent = `Without head ${n} of layer ${layer}: p(${quoted(last.token)}) ${percents(last.probability, after).join(" → ")}`;
  };
  const worst = cells.reduce((best, { value }, at) => (value > cells[best].value ? at : best), 0);
  for (const each of cells) {
    for (const kind of ["pointerenter", "focus"]) each.cell.addEventListener(kind, () => tell(each));
  }
  rove(body, cells.map(({ cell }) => cell), divergence[0].length, worst);
  tell(cells[worst]);
}

function addEffect(line, shown, [look, layer, head], group, share, text) {
  const isOff = (shown.silent ?? []).some(([l, h, g]) => l === layer && h === head && g === group);
  const cell = means(add(line, "td", { "data-acts": "" }, isOff ? "off" : text), "effect", look, layer, head);
  cell.style.setProperty("--share", share);
  cell.classList.toggle("off", isOff);
  pressable(cell, () => (shown.switchHead ? shown.switchHead(layer, head, group) : choose({ look, layer, head })));
  return cell;
}
