// The KV cache: what each step of writing computes anew, and what it finds among the keys and values
// that earlier steps kept; counted while the model runs.

const MOST_STEPS = 64, MOST_COUNTED = 3e9; // steps; multiplications, after which no more are counted
const CACHE_KINDS = [["query", "queries"], ["key", "keys"], ["value", "values"]];
const COUNTED = [["weights", "products with weight matrices"], ["scores", "query · key"], ["values", "weights · values"], ["logits", "output layer, last token only"]];

const isWriter = (scene) => isSampled(scene) && scene.main.causal;

chapters.push({
  id: "kv_cache",
  title: "The KV cache",
  equation: ({ main: { wiring } }) => {
    const [before, after] = wiring?.qk_norm ? ["norm(", ")"] : ["", ""];
    return [`K ← [K; ${before}`, KEY, `${after}],  V ← [V; `, VALUE, `],  output = softmax(${before}`, QUERY, `${after} · Kᵀ / √d) · V`];
  },
  note: "When a model writes, it reads one more token at each step. Because of the causal mask, earlier tokens do not see the new one: their keys and values stay as they are, so they are kept, and only those of the new token are computed.",
  isShown: (scene) => Boolean(scene.live) && isWriter(scene),
  draw(place, scene) {
    if (!scene.rerun) return void add(place, "p", { class: "hint" }, "Unpacking the model …");
    const count = Math.min(scene.main.tokens.length, MOST_STEPS);
    addStepSlider(place, scene, count);
    drawKept(place, scene, count);
    drawCacheSize(place, scene, count);
    drawCosts(place, scene, count);
  },
});

const stepAt = (count) => Math.min(state.cached ?? count - 1, count - 1);

function addStepSlider(place, scene, count) {
  const line = add(add(place, "div", { class: "controls" }), "label", { class: "control stepper" }, "Step ");
  const input = add(line, "input", { type: "range", min: 1, max: count, step: 1, class: "steps" }), value = add(line, "output");
  input.addEventListener("input", () => choose({ cached: Number(input.value) - 1 }));
  follow(["cached"], () => {
    const step = stepAt(count), said = `${step + 1} of ${count}: the model reads ${quoted(scene.main.tokens[step])}`;
    input.value = step + 1;
    input.setAttribute("aria-valuetext", said);
    value.textContent = said;
  });
  if (scene.main.tokens.length > count) add(place, "p", { class: "hint" }, `The first ${count} of ${scene.main.tokens.length} tokens.`);
}

// --- rows of one head ---

function drawKept(place, scene, count) {
  const look = looksOf(scene)[0], said = add(place, "p", { class: "said" }), grid = add(place, "div", { class: "beside-each-other" });
  const sides = ["With the cache", "Without it"].map((name, side) => ({
    side, box: addFigure(grid, {
      name: `One head: ${name.toLowerCase()}`, of: ["layer", "head"],
      caption: side === 0 ? "Outlined: computed in this step. Pale: kept from earlier steps. Empty: needed no more, or not yet there." : "Everything is outlined: it is computed again in each step.",
    }), name,
  }));
  follow(["cached", "layer", "head"], () => {
    const step = stepAt(count), layer = layerOf(look), head = Math.min(state.head, headsOf(look.layers[layer]) - 1), parts = headOf(look.layers[layer], head);
    writeProse(said, [`Step ${step + 1}, layer `, layerPick(look), ", head ", headPick(look), step ? `: one query asks ${step + 1} keys; ${step} of them, and their values, are kept from earlier steps.` : ": the first token; nothing is kept yet."]);
    for (const { side, box, name } of sides) drawVectors(box, { scene, look, parts, layer, head, step, count, isCached: side === 0, name });
  });
}

// Queries, keys, values and weights, a row for each token: numbers that this step does not have are empty.
function drawVectors(box, { scene, look, parts, layer, head, step, count, isCached, name }) {
  const { width } = parts, row = (kind, n) => vectorAt(parts[kind], width, n), shares = weightsOf(look, layer, head);
  const fresh = isCached ? step : 0; // the first row that is computed
  box.textContent = "";
  add(box, "p", { class: "over" }, name);
  const line = add(box, "div", { class: "strips" }), most = usualSize(CACHE_KINDS.flatMap(([kind]) => Array.from({ length: count }, (_, n) => Array.from(row(kind, n))).flat()));
  const strip = (title, style, { columns, value, colour, at, spots, size }) => {
    const part = add(line, "div");
    add(part, "p", { class: `over ${style}` }, title);
    const canvas = drawMatrix(part, { rows: count, columns, value, colour, label: `${title}, ${name.toLowerCase()}`, size, most: 110, tall: Math.max(6.5, Math.min(14, 420 / count)), at, spots, rowNames: line.childNodes.length === 1 ? scene.main.tokens.slice(0, count) : null });
    const outline = add(canvas.parentElement, "div", { class: "fresh" });
    outline.style.top = `${(100 * fresh) / count}%`;
    outline.style.height = `${(100 * (step + 1 - fresh)) / count}%`;
  };
  for (const [kind, title] of CACHE_KINDS) {
    const isThere = (n) => n <= step && (n >= fresh || kind !== "query"), pale = (n) => (n >= fresh ? 1 : 0.35);
    strip(title, `of-${kind}`, {
      columns: width, size: 14, value: (n, k) => [n, isThere(n) ? row(kind, n)[k] / most : 0],
      colour: ([n, value]) => diverging(value).map((each, place) => (place === 3 ? each * pale(n) : each)),
      at: (n, k) => (isThere(n) ? ref(kind, 0, layer, head, n, k) : null),
      spots: (of) => spotIn(of, kind, ([s, l, h, n, k]) => (s === 0 && l === layer && h === head && n < count && isThere(n) ? [n, k === "*" ? 0 : k, 1, k === "*" ? width : 1] : null)),
    });
  }
  strip("weights", "", {
    columns: count, size: 14, value: (n, key) => (n < fresh || Math.max(n, key) > step ? 0 : key > n ? null : shares[n][key]), colour: bluesOf(1),
    at: (n, key) => (n < fresh || Math.max(n, key) > step ? null : ref("weight", 0, layer, head, n, key)),
    spots: (of) => spotIn(of, "weight", ([s, l, h, n, key]) => (s === 0 && l === layer && h === head && n >= fresh && n <= step && key <= step ? [n, key, 1, 1] : null)),
  });
}

// --- memory ---

const sizeInBytes = (count) => (count < 1000 ? `${count} bytes` : count < 1e6 ? `${Number((count / 1e3).toPrecision(3))} kB` : count < 1e9 ? `${Number((count / 1e6).toPrecision(3))} MB` : `${Number((count / 1e9).toPrecision(3))} GB`);

// The numbers that a cache holds for so many tokens, from the shapes of its keys and values.
const cachedNumbers = (layers, length) => layers.reduce((sum, { key, value }) => sum + length * (key.shape[0] * key.shape[2] + value.shape[0] * value.shape[2]), 0);

function drawCacheSize(place, scene, count) {
  const { layers, cross } = scene.main, { num_heads: heads, head_dim: width, context_length: most } = scene.live.config;
  const [groups] = layers[0].key.shape, said = add(place, "p", { class: "said" });
  const sizes = (numbers) => `${sizeInBytes(4 * numbers)} in single, ${sizeInBytes(2 * numbers)} in half precision`;
  const formula = (length) => [`2 · ${layers.length} layers · ${groups} ${groups === 1 ? "head" : "heads"} of keys · ${width} numbers · ${number(length)} tokens = `];
  follow(["cached"], () => {
    const length = stepAt(count) + 1, numbers = cachedNumbers(layers, length), source = cross ? cachedNumbers(cross, cross[0].key.shape[1]) : 0;
    writeProse(said, [
      "After this step, the cache holds ", ...formula(length), term(number(numbers), "", ref("cache-size", 0)), ` numbers: ${sizes(numbers)}.`,
      ...(cross ? [` The keys and values of the source, computed once from ${cross[0].key.shape[1]} tokens, are ${number(source)} more.`] : []),
    ]);
  });
  const full = cachedNumbers(layers, most);
  const shared = groups < heads ? ` The model has grouped queries: ${heads} heads of queries share ${groups} of keys and values, so the cache is ${heads / groups} times smaller than with ${heads}.` : "";
  add(place, "p", { class: "hint" }, `At the full context of ${number(most)} tokens: ${number(full)} numbers, ${sizes(full)}.${shared}`);
}

declare("cache-size", {
  sources: () => [],
  lines() {
    const { layers } = scene.main, [groups, , width] = layers[0].key.shape, length = stepAt(Math.min(scene.main.tokens.length, MOST_STEPS)) + 1;
    return [["numbers in the cache: a key and a value for each token, layer and head of keys"], [`2 · ${layers.length} · ${groups} · ${width} · ${length} = `, term(number(cachedNumbers(layers, length)), "result")]];
  },
});

// --- multiplications ---

const sumOf = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);

function drawCosts(place, scene, count) {
  add(place, "h3", {}, "Multiplications, with the cache and without");
  const hint = add(place, "p", { class: "hint", "aria-live": "polite" }, "Counting …"), grid = add(place, "div", { class: "beside-each-other" });
  grid.style.minHeight = "32rem"; // what follows stays where it is
  const drawCounted = () => {
    grid.style.minHeight = "";
    hint.textContent = `Counted in the matrix products of this page’s model while it runs${scene.main.memory ? "; the source is encoded once before, and not counted" : ""}. Norms, softmax, activations, the scaling of scores and rotary positions are left out.${scene.cacheCosts.length < count ? ` The first ${scene.cacheCosts.length} steps: the others would take too long here.` : ""}`;
    drawCostTable(addFigure(grid, { name: "Multiplications of a step", caption: "With the cache, only the new token is computed; without it, all tokens so far." }), scene, count);
    drawCostCurve(addFigure(grid, { name: "Multiplications of all steps", caption: "Up to each step, added up. With the cache, the curve is almost a line; without it, it grows quadratically." }), scene, count);
    completeFigures(grid);
  };
  if (scene.cacheCosts) return drawCounted();
  const steps = scene.cacheSteps(), costs = [];
  let total = 0;
  const next = () => {
    const { value, done } = costs.length < count && total < MOST_COUNTED ? steps.next() : { done: true };
    if (!done) {
      costs.push(value);
      total += sumOf(value.anew);
      return void later(next);
    }
    scene.cacheCosts = costs;
    drawCounted();
  };
  return later(next);
}

function drawCostTable(box, scene, count) {
  const room = add(box, "div", { class: "scroll" });
  follow(["cached"], () => {
    room.textContent = "";
    const costs = scene.cacheCosts, step = Math.min(stepAt(count), costs.length - 1), table = add(room, "table", { class: "costs" });
    const head = add(add(table, "thead"), "tr"), body = add(table, "tbody"), cells = [];
    for (const name of [`step ${step + 1}`, "with the cache", "without"]) add(head, "th", { scope: "col" }, name);
    const line = (name, values, of, style = "") => {
      const row = add(body, "tr", { class: style });
      add(row, "th", { scope: "row" }, name);
      values.forEach((value, side) => cells.push(means(add(row, "td", {}, number(value)), "cost", of, side)));
    };
    COUNTED.forEach(([kind, name], n) => line(name, ["kept", "anew"].map((side) => costs[step][side][kind]), n));
    line("this step", ["kept", "anew"].map((side) => sumOf(costs[step][side])), COUNTED.length, "total");
    line(`steps 1 to ${step + 1}`, ["kept", "anew"].map((side) => totalCost(costs, side, step)), COUNTED.length + 1, "total");
    rove(body, cells, 2);
    const [kept, anew] = ["kept", "anew"].map((side) => totalCost(costs, side, step));
    setCaption(box, `Up to here, the cache saves ${percent(1 - kept / anew)} of the multiplications.`);
  });
}

const totalCost = (costs, side, step) => costs.slice(0, step + 1).reduce((sum, each) => sum + sumOf(each[side]), 0);

// How a count follows from the shapes of the model, if all its heads are on.
function costFormula(scene, kind, side, step) {
  const { num_heads: heads, head_dim: width } = scene.live.config, { layers, cross } = scene.main, length = step + 1;
  const rows = side === 0 ? 1 : length, pairs = side === 0 ? length : (length * (length + 1)) / 2, source = cross ? rows * cross[0].key.shape[1] : 0;
  if (kind === "scores" || kind === "values") {
    return { text: `${layers.length} layers · ${heads} heads · ${source ? `(${pairs} + ${source} in the source)` : pairs} pairs of query and key · ${width} numbers`, value: layers.length * heads * (pairs + source) * width };
  }
  return null;
}

declare("cost", {
  sources: () => [],
  lines(kind, side) {
    const costs = scene.cacheCosts, step = Math.min(stepAt(Math.min(scene.main.tokens.length, MOST_STEPS)), costs.length - 1), name = ["kept", "anew"][side];
    const title = ` ${side === 0 ? "with the cache" : "without the cache"}, step ${step + 1}`;
    if (kind > COUNTED.length) return [[`all multiplications of ${step + 1} steps, ${side === 0 ? "with" : "without"} the cache`], [...sumParts(costs.slice(0, step + 1).map((each, n) => [sumOf(each[name]), [`${number(sumOf(each[name]))} (step ${n + 1})`]])), " = ", term(number(totalCost(costs, name, step)), "result")]];
    if (kind === COUNTED.length) return [[`all multiplications${title}`], [COUNTED.map(([each]) => number(costs[step][name][each])).join(" + "), " = ", term(number(sumOf(costs[step][name])), "result")]];
    const [each, what] = COUNTED[kind], value = costs[step][name][each], formula = costFormula(scene, each, side, step);
    return [[`${what}:${title}`], formula?.value === value ? [`${formula.text} = `, term(number(value), "result")] : [`rows · width · depth of each product, added up while the model ran: `, term(number(value), "result")]];
  },
});

function drawCostCurve(box, scene, count) {
  const costs = scene.cacheCosts, width = Math.min(520, box.clientWidth || 480), height = 280, frame = { left: 66, right: width - 96, top: 22, bottom: height - 44 };
  const svg = add(box, "svg", { width, height, role: "img", "aria-label": "multiplications of all steps, with and without the cache", class: "cost-curve" });
  const lines = ["kept", "anew"].map((side) => {
    let sum = 0;
    return costs.map((each) => (sum += sumOf(each[side])));
  });
  const x = scale([1, Math.max(2, costs.length)], [frame.left, frame.right]), y = scale([0, lines[1].at(-1)], [frame.bottom, frame.top]);
  drawAxes(svg, x, y, frame, { x: "step", y: "multiplications" }, brief);
  const ends = spreadApart(lines.map((line) => y(line.at(-1))), 15, frame.top, frame.bottom);
  lines.forEach((line, n) => {
    const style = ["of-cache", "of-none"][n];
    add(svg, "path", { class: `line ${style}`, d: pathOf(line.map((value, step) => [x(step + 1), y(value)])) });
    add(svg, "text", { class: `line-name ${style}`, x: frame.right + 6, y: ends[n] + 4 }, ["with cache", "without"][n]);
  });
  const now = add(svg, "line", { class: "now", y1: frame.top - 6, y2: frame.bottom });
  follow(["cached"], () => {
    const place = x(Math.min(stepAt(count), costs.length - 1) + 1);
    now.setAttribute("x1", place);
    now.setAttribute("x2", place);
  });
  describe(box, `After ${costs.length} steps: ${number(lines[0].at(-1))} multiplications with the cache, ${number(lines[1].at(-1))} without.`);
}

// 1.2M: a count on an axis.
const brief = (value) => (value >= 1e9 ? `${value / 1e9}G` : value >= 1e6 ? `${value / 1e6}M` : value >= 1e3 ? `${value / 1e3}k` : String(value));
