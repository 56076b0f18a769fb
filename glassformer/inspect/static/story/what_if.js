// What if a part of the model were missing, the words came in another order, or the search had more
// beams: the model in the page runs again, and its prediction stands beside the one as it is.

const SHOWN_BESIDE = 10;

// Parts that can be left out: their name in the address, the change in live/model.js, what the button
// says, and an equation, in which a part that can be left out has its name.
const REMOVABLE = [
  { name: "scale", change: "unscaled", label: "Do not divide by √d", equation: (scene) => ["softmax(", ...productIn(scene), ")"] },
  { name: "positions", change: "unpositioned", label: "No positions", equation: (scene) => POSITION_EQUATIONS[scene.live.config.positions](scene) },
  { name: "mask", change: "unmasked", label: "No causal mask", equation: (scene) => ["softmax(", ...productIn(scene), { of: "mask", text: " + mask" }, ")"] },
];
const productIn = ({ main }) => [main.wiring?.qk_norm ? "norm(query) · norm(key)ᵀ" : "query · keyᵀ", { of: "scale", text: " / √d" }];
const positionsAdded = () => ["x = E[token]", { of: "positions", text: " + P[position]" }];
const POSITION_EQUATIONS = {
  learned: positionsAdded,
  sinusoidal: positionsAdded,
  rotary: (scene) => ["score = ", { of: "positions", text: "R(i − j)" }, " ", ...productIn(scene)],
  relative: (scene) => ["score = ", ...productIn(scene), { of: "positions", text: " + bias of the distance" }],
};

chapters.push({
  id: "what_if",
  title: "What if",
  equation: ["KL = Σ p · ln(p / q)"],
  note: "Change one part of the model, or several, and it runs again on this text: p is its prediction as it is, q the one with the change. The other chapters go on showing the model as it is.",
  isShown: ({ live }) => Boolean(live),
  draw(place, scene) {
    if (!scene.rerun) return void add(place, "p", { class: "hint" }, "Unpacking the model …");
    scene.whatIf ??= new Map(); // runs that are known, by what was changed
    drawSwitchboard(place, scene);
    const banner = add(place, "p", { class: "said changed", "aria-live": "polite" }), result = add(place, "div", { class: "what-if" });
    follow(["layer", "head"], () => scene.compared?.drawHead());
    follow(["without", "shuffle", "token", "look"], () => {
      const wanted = scene.wanted = changesOf(scene);
      scene.compared = null;
      result.setAttribute("aria-busy", wanted.isAny);
      banner.textContent = wanted.isAny ? `Changed here: ${inWords(scene, wanted)}.` : "";
      result.style.minHeight = wanted.isAny ? `${result.offsetHeight ?? 0}px` : ""; // what follows stays where it is
      if (!wanted.isAny) {
        result.textContent = "";
        return;
      }
      later(() => {
        if (scene.wanted !== wanted) return; // changed again meanwhile
        scene.compared = comparedWith(scene, wanted);
        result.textContent = "";
        drawCompared(result, scene);
        completeFigures(result);
        result.style.minHeight = "";
        result.setAttribute("aria-busy", false);
      });
    });
    if (!isSampled(scene)) return;
    drawBeamCounts(place, scene);
    drawDraws(place, scene);
  },
});

// --- what is changed ---

// The streams of the model whose tokens may look at later ones only without the mask.
const isMasked = ({ live }) => live.streams.some((stream) => stream.is_causal);
const hasPositions = ({ live }) => live.config.positions !== "none";
const isPossible = (scene, { name }) => (name === "positions" ? hasPositions(scene) : name !== "mask" || isMasked(scene));

// What the reader changed, as far as this model has it. `order` are the places at which the tokens of
// the shuffled text stood before.
function changesOf(scene) {
  const parts = REMOVABLE.filter((part) => state.without.split(",").includes(part.name) && isPossible(scene, part));
  const order = state.shuffle ? shuffledOrder(scene, predictionAt(scene), state.shuffle) : null;
  const key = `${parts.map(({ name }) => name)}/${order ?? ""}`;
  return { parts, order, key, isAny: parts.length > 0 || order !== null };
}

function inWords(scene, { parts, order }) {
  const said = { scale: `scores are not divided by √${scene.live.config.head_dim}`, positions: "the model has no positions", mask: "tokens see those that come later" };
  return [...parts.map(({ name }) => said[name]), ...(order ? [`words in another order (number ${state.shuffle})`] : [])].join("; ");
}

function runOf(scene, { parts, order, key }) {
  const known = scene.whatIf;
  if (!known.has(key)) {
    if (known.size > 20) known.clear();
    const [first, ...others] = scene.inputs, rows = order ? [order.map((n) => first[n]), ...others] : scene.inputs;
    known.set(key, { ...scene.rerun(parts.map(({ change }) => change), rows), rows });
  }
  return known.get(key);
}

const AS_IT_IS = { parts: [], order: null, key: "/" };

// How far the prediction of one run is from that of another.
function divergenceOf(scene, at, before, after) {
  const [p, q] = [before, after].map((run) => logShares(run.logitsAt(at), scene.several));
  const terms = Array.from(p, (each, n) => (each > -700 ? Math.exp(each) * (each - q[n]) : 0));
  return { logShares: [p, q], terms, divergence: Math.max(0, terms.reduce((a, b) => a + b, 0)) };
}

function comparedWith(scene, changes) {
  const at = predictionAt(scene), runs = [AS_IT_IS, changes].map((each) => runOf(scene, each));
  return { at, changes, runs, ...divergenceOf(scene, at, ...runs) };
}

// --- words in another order ---

// The words on each side of the one at which the model predicts: so that one keeps its position. The
// tokens of a word stay together, as [first, after the last]. What stays where it is is in none: spaces
// of their own, the marks around a text, the word at which the model predicts and, if it reads from left
// to right, all that follows.
function movableWords(scene, at) {
  const [{ tokens }] = scene.streams, [{ input, is_causal: isCausal }] = scene.live.streams, words = [];
  const isOwn = scene.streams.length === 1 && scene.predicts !== "whole"; // predicted within this text
  const hasSpaces = tokens.slice(1).some((token) => /^[\s▁]/.test(token));
  let isInside = false;
  tokens.forEach((token, n) => {
    const isFixed = n < input.before.length || n >= tokens.length - input.after.length || !token.trim();
    const begins = !isInside || /^[\s▁]/.test(token) || (!hasSpaces && !token.startsWith("##") && Boolean(scene.separator));
    if (!isFixed && begins) words.push([n, n + 1]);
    else if (!isFixed) words.at(-1)[1] = n + 1;
    isInside = !isFixed;
  });
  if (words.length && words.some(([first]) => /^[\s▁]/.test(tokens[first])) && !/^[\s▁]/.test(tokens[words[0][0]])) words.shift(); // it would lose its space
  if (!isOwn) return [words];
  return [words.filter(([, last]) => last <= at), isCausal ? [] : words.filter(([first]) => first > at)];
}

// Null: there are no two different words to exchange.
function shuffledOrder(scene, at, seed) {
  const [ids] = scene.inputs, random = makeRandom(seed), spelled = ([first, last]) => ids.slice(first, last).join();
  const sides = movableWords(scene, at).filter((words) => new Set(words.map(spelled)).size > 1);
  if (!sides.length) return null;
  const order = [];
  let from = 0;
  const take = (first, last) => { for (let token = first; token < last; token += 1) order.push(token); };
  for (const words of sides) {
    const moved = shuffledWords(words, spelled, random);
    words.forEach(([first, last], n) => {
      take(from, first);
      take(...moved[n]);
      from = last;
    });
  }
  take(from, ids.length);
  return order;
}

// In another order, which is not spelled alike.
function shuffledWords(words, spelled, random) {
  const moved = [...words];
  do {
    for (let n = moved.length - 1; n > 0; n -= 1) {
      const other = Math.floor(random() * (n + 1));
      [moved[n], moved[other]] = [moved[other], moved[n]];
    }
  } while (moved.every((word, n) => spelled(word) === spelled(words[n])));
  return moved;
}

// --- the switches ---

function drawSwitchboard(place, scene) {
  const board = add(place, "div", { class: "switchboard" }), isOn = (name) => state.without.split(",").includes(name);
  const toggled = (name) => REMOVABLE.map((part) => part.name).filter((each) => (each === name) !== isOn(each)).join();
  for (const part of REMOVABLE.filter((each) => isPossible(scene, each))) {
    const line = add(board, "div", { class: "switch" }), button = add(line, "button", { type: "button" }, part.label);
    const equation = add(line, "span", { class: "equation" });
    for (const each of part.equation(scene)) {
      if (typeof each === "string") equation.append(each);
      else addRemovable(equation, each, () => isOn(each.of));
    }
    button.addEventListener("click", () => choose({ without: toggled(part.name) }));
    follow(["without"], () => button.setAttribute("aria-pressed", isOn(part.name)));
  }
  const line = add(board, "div", { class: "switch" }), shuffle = add(line, "button", { type: "button" }, "Shuffle the words");
  const hint = add(line, "span", { class: "quiet-text" });
  shuffle.addEventListener("click", () => choose({ shuffle: (state.shuffle % 9999) + 1 }));
  follow(["shuffle", "token"], () => {
    const canShuffle = shuffledOrder(scene, predictionAt(scene), 1) !== null;
    shuffle.disabled = !canShuffle;
    shuffle.setAttribute("aria-pressed", canShuffle && state.shuffle > 0);
    const side = isMasked(scene) ? "before" : "on either side of";
    const which = scene.streams.length > 1 ? "of the source" : scene.predicts === "whole" ? "of the text" : `${side} the one at which the model predicts`;
    hint.textContent = canShuffle ? `the words ${which}; press again for another order` : `there are no two different words ${which} to exchange`;
  });
  const back = add(add(board, "div", { class: "switch" }), "button", { type: "button" }, "Back to the model as it is");
  back.addEventListener("click", () => choose({ without: "", shuffle: 0 }));
  follow(["without", "shuffle"], () => { back.disabled = !state.without && !state.shuffle; });
  const absent = absentSwitches(scene);
  if (absent) add(place, "p", { class: "hint" }, absent);
}

function addRemovable(equation, { text }, isLeftOut) {
  const own = add(equation, "span", { class: "removable" }, text);
  follow(["without"], () => own.classList.toggle("struck", isLeftOut()));
}

function absentSwitches(scene) {
  const masked = "There is no causal mask to leave out: in this model, every token may look at every other.";
  return [
    hasPositions(scene) ? "" : `This model has no positions to leave out${isMasked(scene) ? ": it knows the order of tokens from the causal mask alone" : ""}.`,
    isMasked(scene) ? "" : masked,
    isSampled(scene) ? "" : "This model does not write token by token, so there are no beams, no draws and no KV cache.",
  ].filter(Boolean).join(" ");
}

// --- before and after ---

const SIDES = ["The model as it is", "With the change"];

function drawCompared(place, scene) {
  const { at, changes, runs, divergence } = scene.compared;
  const where = { next: "after", same: "at" }[scene.predicts];
  const options = runs.map((run) => topOf(run.logitsAt(at), SHOWN_BESIDE, scene.nameOf, scene.several));
  const ids = runs.map((run) => largestOf(run.logitsAt(at), SHOWN_BESIDE));
  writeProse(add(place, "p", { class: "said" }), [
    `The prediction ${where ? `${where} ${quoted(scene.main.tokens[at])}` : "of the label"}: KL = `, term(`${number(divergence)} nats`, "", ref("divergence")),
    divergence < 1e-9 ? "; nothing changes." : options[0][0][0] === options[1][0][0] ? "; the same is likeliest." : `; ${quoted(options[1][0][0])} is likeliest instead of ${quoted(options[0][0][0])}.`,
  ]);
  if (changes.order) drawNewOrder(place, scene, changes);
  const grid = add(place, "div", { class: "beside-each-other" }), most = Math.max(options[0][0][1], options[1][0][1]);
  const actual = scene.predicts === "next" && !changes.order ? scene.main.ids[at + 1] : undefined;
  options.forEach((found, side) => {
    const box = addFigure(grid, { name: SIDES[side], of: ["token"], caption: side === 0 && ids.flat().includes(actual) ? "Red: the token that follows in the text." : "" });
    add(box, "p", { class: "over" }, SIDES[side]);
    drawBars(box, found.map(([name, p], n) => ({ name, value: p, text: percent(p), style: ids[side][n] === actual ? "chosen" : "", of: ["beside", side, ids[side][n]] })), most, scene.live.labels ? "label" : "token");
  });
  for (const sentence of explained(scene)) add(place, "p", { class: "honest" }, sentence);
  if (scene.predicts === "next" && !changes.order) writeLoss(place, scene);
  drawHeadsCompared(place, scene);
}

function drawNewOrder(place, scene, { order }) {
  const [{ tokens }] = scene.streams, row = add(place, "p", { class: "passage", dir: "auto", "aria-label": "the text as it is read now" });
  order.forEach((from, n) => {
    if (n && scene.separator) row.append(scene.separator);
    add(row, "span", { class: from === n ? "" : "moved" }, tokens[from]);
  });
}

// What the changes mean, in sentences.
function explained(scene) {
  const { at, changes: { parts, order }, runs } = scene.compared, has = (name) => parts.some((each) => each.name === name);
  const said = [];
  if (order && (has("positions") || !hasPositions(scene))) {
    const isBag = !scene.live.streams[0].is_causal || has("mask"), [ids] = scene.inputs, { pooling } = scene.live;
    const read = { first: 0, last: order.length - 1 }[pooling], isSame = read === undefined || ids[order[read]] === ids[read];
    const inOldOrder = runOf(scene, { parts, order: null, key: `${parts.map(({ name }) => name)}/` });
    const between = `KL between the old order and the new, both ${has("positions") ? "without positions" : "in this model without positions"}: ${number(divergenceOf(scene, at, inOldOrder, runs[1]).divergence)} nats.`;
    const bag = "Without positions and without a mask, attention sees a set of tokens: in any order,";
    said.push(!isBag
      ? `Without positions, the order still matters to this model: the causal mask lets each token see only those before it. ${between}`
      : isSame ? `${bag} they get the same vectors, and the prediction is the same, up to rounding. ${between}`
        : `${bag} every token gets the same vector, but the label is read from the ${pooling} token, which is another one now. ${between}`);
  }
  if (has("mask") && scene.predicts !== "next") {
    said.push("Without the mask, each token also reads those after it. The model never learned that, so its prediction need not get better.");
  } else if (has("mask")) {
    said.push("Without the mask, a token reads the answer instead of predicting it: the token that follows is among its keys, and so are all others after it. A model that learned without a mask would only learn to copy, and could not write, because what it copies is not there yet. This one never learned to look ahead, so its numbers need not get better."
      + (at === scene.main.ids.length - 1 ? " After the last token, there is no answer to be read: choose an earlier one." : ""));
  }
  return said;
}

// The mean of −ln p of the tokens that follow, before and after.
function writeLoss(place, scene) {
  const { ids } = scene.main, count = Math.min(ids.length - 1, MOST_LENS);
  if (count < 1) return;
  const [before, after] = scene.compared.runs.map((run) => Array.from({ length: count }, (_, n) => {
    const logits = run.logitsAt(n);
    return logSum(logits) - logits[ids[n + 1]];
  }).reduce((a, b) => a + b, 0) / count).map(number);
  add(place, "p", { class: "hint" }, `The loss, the mean of −ln p of the token that follows, ${before === after ? `stays at ${before}` : `goes from ${before} to ${after}`} nats${count < ids.length - 1 ? ` over the first ${count} predictions` : ` over ${count} predictions of the text`}.`);
}

declare("beside", {
  sources: () => [],
  lines(side, id) {
    if (!scene.compared) return null;
    const logits = scene.compared.runs[side].logitsAt(scene.compared.at), log = scene.compared.logShares[side][id];
    return [
      [`p of ${quoted(scene.nameOf(id))}: ${SIDES[side].toLowerCase()}`],
      [scene.several ? "1 / (1 + e^" : "e^", term(scene.several ? signed(-logits[id]) : inSum(logits[id])), scene.several ? ") = " : ` / Σ e^logit = e^${inSum(logits[id])} / e^${inSum(logSum(logits))} = `, term(percent(Math.exp(log), 2), "result")],
    ];
  },
});

declare("divergence", {
  sources: () => [],
  lines() {
    if (!scene.compared) return null;
    const { terms, logShares: [p, q], divergence } = scene.compared, count = terms.length / (scene.several ? 2 : 1);
    const name = (n) => `${n < count ? "" : "not "}${quoted(scene.nameOf(n % count))}`;
    const shown = terms.map((value, n) => [value, [term(signed(value)), ` (${name(n)}: ${percent(Math.exp(p[n]))} · ln(${percent(Math.exp(p[n]))} / ${percent(Math.exp(q[n]))}))`]]);
    return [["KL divergence of the prediction as it is from the one with the change"], ["Σ p · ln(p / q) = ", ...sumParts(shown, 3), " = ", term(inSum(divergence), "result")]];
  },
});

// --- attention before and after ---

// The layers of a run that belong to who looks at whom.
function layersOfRun(scene, { seen }, look) {
  const { streams } = scene.live, stack = look.asks === 0 ? streams[0].stack : streams.at(-1).stack;
  const { layers } = seen.stacks[stack];
  return look.name === "cross" ? layers.map(({ cross }) => cross) : layers;
}

// The mean entropy of the rows of a matrix of shares, in nats.
function meanEntropy(shares, rows) {
  let sum = 0;
  for (const share of shares) if (share > 0) sum -= share * Math.log(share);
  return sum / rows;
}

function drawHeadsCompared(place, scene) {
  const look = lookOf(scene), { runs } = scene.compared, both = runs.map((run) => layersOfRun(scene, run, look));
  const rows = look.asking.length, heads = headsOf(look.layers[0]);
  add(place, "h3", {}, "Attention before and after");
  add(place, "p", { class: "hint" }, `The entropy −Σ w · ln w of the weights of a query says how widely it looks: 0 if it looks at one token only, ln n if it looks at n tokens equally. Each number is the mean over ${rows} queries${look.label ? ` (${look.label})` : ""}, as it is → with the change. Choose a head.`);
  const box = addFigure(place, { name: "Entropy of the attention weights", of: ["look"], caption: "In nats. Orange: looks at fewer tokens than before; blue: at more." });
  const table = add(add(box, "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "entropy of all heads" }), "table", { class: "effects" });
  const top = add(add(table, "thead"), "tr"), body = add(table, "tbody"), cells = [];
  add(top, "td", {}, "");
  for (let head = 0; head < heads; head += 1) add(top, "th", { scope: "col" }, `head ${head}`);
  scene.entropies = both.map((layers) => layers.map(() => []));
  const pictures = add(place, "div");
  both[0].forEach((_, layer) => {
    const line = add(body, "tr");
    add(line, "th", { scope: "row" }, `layer ${layer}`);
    for (let head = 0; head < heads; head += 1) {
      const cell = means(add(line, "td", { "data-acts": "" }, "…"), "entropy", layer, head);
      pressable(cell, () => choose({ layer, head }));
      cells.push({ cell, layer, head });
      later(() => {
        const [one, other] = both.map((layers, side) => (scene.entropies[side][layer][head] = meanEntropy(layers[layer].weights(head), rows)));
        cell.textContent = `${one.toFixed(2)} → ${other.toFixed(2)}`;
        cell.style.setProperty("--share", Math.min(1, Math.abs(other - one) / Math.max(1e-9, Math.log(look.tokens.length))));
        cell.classList.toggle("wider", other > one);
      });
    }
  });
  rove(body, cells.map(({ cell }) => cell), heads, Math.min(state.layer, both[0].length - 1) * heads + state.head);
  const said = add(pictures, "p", { class: "said" }), grid = add(pictures, "div", { class: "beside-each-other" });
  const figures = SIDES.map((name) => addFigure(grid, { name: `Head: ${name.toLowerCase()}`, of: ["look", "layer", "head"] }));
  const draw = () => {
    const layer = Math.min(state.layer, both[0].length - 1), { head } = state;
    cells.forEach((each) => each.cell.classList.toggle("picked", each.layer === layer && each.head === head));
    writeProse(said, ["Layer ", layerPick(look), ", head ", headPick(look), ": its weights"]);
    const shares = both.map((layers) => layers[layer].weights(head)), most = Math.max(...shares.map((each) => each.reduce((a, b) => Math.max(a, b), 0)));
    scene.sharesBeside = shares;
    figures.forEach((figure, side) => drawSharesBeside(figure, scene, look, { side, shares: shares[side], most, isCausal: both[side][layer].causal }));
  };
  scene.compared.drawHead = draw;
  draw();
}

function drawSharesBeside(figure, scene, look, { side, shares, most, isCausal }) {
  const { changes: { order } } = scene.compared, rows = look.asking.length, columns = look.tokens.length;
  const inOrder = (tokens, stream) => (side === 1 && order && stream === 0 ? order.map((n) => tokens[n]) : tokens);
  figure.textContent = "";
  add(figure, "p", { class: "over" }, SIDES[side]);
  drawMatrix(figure, {
    rows, columns, value: (r, c) => (isCausal && c > r ? null : shares[r * columns + c]), colour: bluesOf(most), label: `weights of a head, ${SIDES[side].toLowerCase()}`,
    rowNames: inOrder(look.asking, look.asks), columnNames: inOrder(look.tokens, look.answers), size: Math.max(6, Math.min(18, 300 / columns)), most: 260,
    at: (r, c) => ref("beside-weight", side, r, c), spots: (of) => spotIn(of, "beside-weight", ([s, r, c]) => (s === side ? [r, c, 1, 1] : null)),
  });
}

declare("entropy", {
  sources: () => [],
  lines(layer, head) {
    if (!scene.compared) return null;
    const [one, other] = scene.entropies.map((layers) => layers[layer][head]), { length } = lookOf(scene).asking;
    if (other === undefined) return [["entropy of the weights"]];
    return [
      [`mean entropy of the weights of ${length} queries`, headTitle(layer, head)],
      [`as it is ${inSum(one)} nats: as widely as over ${inSum(Math.exp(one))} equal weights; with the change `, term(inSum(other), "result"), ` nats: ${inSum(Math.exp(other))} equal weights`],
    ];
  },
});

declare("beside-weight", {
  sources: () => [],
  lines(side, query, key) {
    if (!scene.compared) return null;
    const { order } = scene.compared.changes, look = lookOf(scene), share = scene.sharesBeside[side][query * look.tokens.length + key];
    const named = (tokens, n, stream) => quoted(tokens[side === 1 && order && stream === 0 ? order[n] : n]);
    return [[`weight of ${named(look.tokens, key, look.answers)} at ${key} for the query ${named(look.asking, query, look.asks)} at ${query}: ${SIDES[side].toLowerCase()}`], [term(percent(share, 2), "result")]];
  },
});
