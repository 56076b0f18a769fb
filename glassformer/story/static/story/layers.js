// Chapter 4: layer by layer. What each layer would predict, how vectors move, which heads matter.

chapters.push({
  id: "layers",
  title: "Layer by layer",
  note: "Each layer adds to the vector of every token. The lens reads these vectors as if the layer were the last.",
  isShown: (scene) => Boolean(scene.path),
  draw(place, scene) {
    if (scene.lens) drawLens(place, scene);
    else if (scene.logitsWithout) add(place, "p", { class: "hint" }, `The lens of a text that is typed here is shown for up to ${MOST_LENS} tokens.`);
    drawPath(place, scene);
    const part = add(place, "div");
    if (scene.effects) drawEffects(part, scene);
    else if (scene.logitsWithout) {
      add(part, "p", { class: "hint" }, "Switching off each head …");
      effectsOfHeads(scene, (effects) => {
        part.textContent = "";
        drawEffects(part, { ...scene, effects });
      });
    }
  },
});

const layerName = (number) => (number === 0 ? "input" : `layer ${number - 1}`);

function drawLens(place, scene) {
  add(place, "h3", {}, "What each layer would predict");
  const said = add(place, "p", { class: "said" });
  const table = add(add(place, "div", { class: "scroll tall" }), "table", { class: "lens" });
  const head = add(add(table, "thead"), "tr");
  add(head, "th", {}, "");
  scene.main.tokens.forEach((token) => add(head, "th", { dir: "auto" }, short(visible(token), 12)));
  const body = add(table, "tbody");
  const cells = [];
  for (let layer = scene.lens.length - 1; layer >= 0; layer -= 1) { // the last layer on top
    const row = add(body, "tr");
    add(row, "th", {}, layerName(layer));
    scene.lens[layer].forEach((options, token) => {
      const [[name, share]] = options;
      const cell = add(row, "td", { dir: "auto", tabindex: 0 }, short(visible(name), 12));
      cell.style.setProperty("--share", share);
      cell.classList.toggle("sure", share > 0.6);
      const tell = () => {
        const parts = options.map(([each, p]) => `${quoted(each)} ${percent(p)}`);
        said.textContent = `${quoted(scene.main.tokens[token])}, ${layerName(layer)}: ${parts.join(", ")}`;
      };
      cell.addEventListener("mouseenter", tell);
      cell.addEventListener("focus", tell);
      cell.addEventListener("click", () => choose({ token }));
      cells.push({ cell, token });
    });
  }
  follow(["token"], () => cells.forEach(({ cell, token }) => cell.classList.toggle("chosen", token === state.token)));
  const best = scene.lens[scene.lens.length - 1][scene.focus];
  said.textContent = `${quoted(scene.main.tokens[scene.focus])}, after the last layer: ${best.map(([name, p]) => `${quoted(name)} ${percent(p)}`).join(", ")}`;
}

// The way of every token through the layers on a map; the chosen one stands out.
function drawPath(place, scene) {
  const { places, share, norms, similar } = scene.path;
  add(place, "h3", {}, "How the vectors move");
  add(place, "p", { class: "hint" }, `Directions of all states on a map that holds ${percent(share, 0)} of their differences; each line leads from the input to the last layer.`);
  const grid = add(place, "div", { class: "side" });
  const figure = add(grid, "figure");
  const width = Math.min(560, figure.clientWidth || 560), height = 360, room = 26;
  const svg = add(figure, "svg", { width, height, role: "img", "aria-label": "paths of the tokens through the layers" });
  const x = scale(domainOf(places.flat().map(([a]) => a)), [room, width - 3 * room]);
  const y = scale(domainOf(places.flat().map(([, b]) => b)), [height - room, room]);
  const groups = scene.main.tokens.map((token, number) => {
    const points = places.map((layer) => [x(layer[number][0]), y(layer[number][1])]);
    const group = add(svg, "g", { class: "path" });
    add(group, "path", { d: pathOf(points) });
    points.forEach(([a, b], n) => add(group, "circle", { cx: a, cy: b, r: n === points.length - 1 ? 4 : 2 }));
    const [a, b] = points[points.length - 1];
    add(group, "text", { x: a + 6, y: b + 4 }, short(visible(token), 12));
    group.addEventListener("mouseenter", () => choose({ token: number }));
    return group;
  });
  keepLabelsApart(groups);
  const list = add(grid, "div", { class: "list" });
  follow(["token"], () => {
    groups.forEach((group, number) => group.classList.toggle("chosen", number === state.token));
    list.textContent = "";
    add(list, "p", { class: "said" }, `${quoted(scene.main.tokens[state.token])}: how much each layer turns it`);
    drawBars(list, similar.map((row, layer) => {
      const angle = (180 / Math.PI) * Math.acos(Math.max(-1, Math.min(1, row[state.token])));
      return { name: layerName(layer + 1), value: angle, text: `${angle.toFixed(0)}°` };
    }), 90);
    const lengths = norms.map((row) => number(row[state.token]));
    add(list, "p", { class: "hint" }, `Length of the vector, from input to last layer: ${lengths.join(" → ")}`);
  });
}

// 0.037, or 3.7e-5: a table of zeros would say nothing.
const effect = (value) => (value && value < 0.0005 ? value.toExponential(1) : value.toFixed(3));

function drawEffects(place, scene) {
  const { divergence, change } = scene.effects;
  add(place, "h3", {}, "Switch a head off");
  const last = scene.predictions[scene.focus].options[0];
  const where = { next: "after", same: "at" }[scene.predicts];
  const what = where ? `the prediction ${where} ${quoted(scene.main.tokens[scene.focus])}` : "the predicted label";
  add(place, "p", { class: "hint" }, `How much ${what} changes if one head contributes nothing (KL divergence). Each number is a run of the model without that head.` + (scene.switchHead ? " Click one to leave it switched off everywhere on this page." : ""));
  const said = add(place, "p", { class: "said" });
  const table = add(add(place, "div", { class: "scroll" }), "table", { class: "effects" });
  const head = add(add(table, "thead"), "tr");
  add(head, "th", {}, "");
  divergence[0].forEach((_, n) => add(head, "th", {}, `head ${n}`));
  const body = add(table, "tbody"), most = Math.max(1e-9, ...divergence.flat());
  let worst = null;
  divergence.forEach((row, layer) => {
    const line = add(body, "tr");
    add(line, "th", {}, `layer ${layer}`);
    row.forEach((value, n) => {
      const cell = add(line, "td", { tabindex: 0 }, effect(value));
      cell.style.setProperty("--share", value / most);
      const tell = () => {
        const after = last.probability * Math.exp(change[layer][n]);
        said.textContent = `Without head ${n} of layer ${layer}: p(${quoted(last.token)}) ${percent(last.probability)} → ${percent(after)}`;
      };
      cell.addEventListener("mouseenter", tell);
      cell.addEventListener("focus", tell);
      const isOff = (scene.silent ?? []).some(([l, h]) => l === layer && h === n);
      if (isOff) cell.textContent = "off";
      cell.classList.toggle("off", isOff);
      cell.addEventListener("click", () => (scene.switchHead ? scene.switchHead(layer, n) : choose({ layer, head: n })));
      if (value === most) worst = tell;
    });
  });
  worst?.();
}
