// What decoding writes with the model as it is or as it was changed (what_if.js): with another number
// of beams, and with a token drawn again and again.

const MOST_DRAWS = 10000, SHOWN_DRAWN = 12, BEAMS = [1, 2, 4, 8];

// --- another number of beams ---

function drawBeamCounts(place, scene) {
  add(place, "h3", {}, "Another number of beams");
  add(place, "p", { class: "hint" }, `${scene.streams.length > 1 ? "The translation" : `The continuation of the text, up to ${SEARCH_STEPS} tokens,`} that a search finds, and its score: Σ log p(token) / number of tokens. More beams keep more candidates at each step; the score they find is often higher, but not always: what looks worse at first is dropped. The search uses the model with the changes above, if there are any.`);
  const line = add(place, "div", { class: "controls looks", role: "group", "aria-label": "number of beams" });
  const buttons = BEAMS.map((count) => {
    const button = add(line, "button", { type: "button" }, count === 1 ? "1 beam (greedy)" : `up to ${count} beams`);
    button.addEventListener("click", () => choose({ beams: state.beams === count ? 0 : count }));
    return button;
  });
  const room = add(place, "div");
  let wanted = "";
  follow(["beams", "without", "shuffle", "token"], () => {
    buttons.forEach((button, n) => button.setAttribute("aria-pressed", BEAMS[n] === state.beams));
    const changes = changesOf(scene), { key } = changes, counts = BEAMS.filter((count) => count <= state.beams);
    if (wanted === `${key}/${counts}`) return;
    wanted = `${key}/${counts}`;
    scene.foundByBeams = {};
    room.textContent = "";
    if (!counts.length) return;
    const own = wanted, [first, ...others] = scene.inputs, { order } = changes;
    const rows = order ? [order.map((n) => first[n]), ...others] : scene.inputs;
    const box = addFigure(room, { name: "Searches with several beams", caption: changes.isAny ? `With the change: ${inWords(scene, changes)}.` : "" });
    const table = add(add(box, "div", { class: "scroll" }), "table", { class: "searches" }), head = add(add(table, "thead"), "tr"), body = add(table, "tbody");
    for (const name of ["beams", "written", "score"]) add(head, "th", { scope: "col" }, name);
    const lines = counts.map((count) => {
      const each = add(body, "tr");
      add(each, "th", { scope: "row" }, String(count));
      return { count, text: add(each, "td", { dir: "auto", class: "written" }, "searching …"), score: add(each, "td", {}, "") };
    });
    const next = ([each, ...rest]) => {
      if (!each || wanted !== own) return;
      scene.searchWith(each.count, changes.parts.map(({ change }) => change), rows, (found) => {
        if (wanted !== own) return;
        scene.foundByBeams[each.count] = found;
        each.text.textContent = spaced(found.tokens.join(scene.separator)) + (found.isComplete ? "" : " …");
        means(each.score, "searched", each.count).textContent = found.score.toFixed(3);
        each.score.setAttribute("tabindex", 0);
        next(rest);
      });
    };
    next(lines);
  });
}

declare("searched", {
  sources: () => [],
  lines(count) {
    const found = scene.foundByBeams[count];
    if (!found) return null;
    const { logprob, tokens, isComplete, score } = found, length = tokens.length + isComplete;
    return [[`score of what ${count === 1 ? "greedy decoding" : `${count} beams`} found`], [`Σ log p / tokens = ${inSum(logprob)} / ${length}${isComplete ? " (with the end)" : ""} = `, term(inSum(score), "result")]];
  },
});

// --- drawing a token again and again ---

function drawDraws(place, scene) {
  add(place, "h3", {}, "Draw a token, again and again");
  add(place, "p", { class: "hint" }, "Sampling draws one token by these probabilities. How often each was drawn comes close to p only after many draws. The sliders are those of the prediction.");
  addSliders(add(place, "div", { class: "controls" }));
  const line = add(place, "div", { class: "controls draws" });
  const draws = [[1, "Draw a token"], [10, "Draw 10"], [100, "Draw 100"]].map(([count, label]) => {
    const button = add(line, "button", { type: "button" }, label);
    button.addEventListener("click", () => choose({ draws: Math.min(MOST_DRAWS, state.draws + count) }));
    return button;
  });
  const clear = add(line, "button", { type: "button" }, "Start again");
  clear.addEventListener("click", () => choose({ draws: 0 }));
  const said = add(place, "p", { class: "said", "aria-live": "polite" });
  const box = addFigure(place, { name: "Tally of draws", of: ["token"], caption: "Upper bar: p. Lower bar: share of the draws." });
  follow(["token", "draws", "temperature", "topK", "topP", "without", "shuffle"], () => {
    clear.disabled = state.draws === 0;
    for (const button of draws) button.disabled = state.draws === MOST_DRAWS;
    const changes = changesOf(scene), at = predictionAt(scene);
    const source = `${at}/${changes.key}`;
    if (scene.drawnFrom?.source !== source) scene.drawnFrom = { source, ...liveDistribution(runOf(scene, changes.isAny ? changes : AS_IT_IS).logitsAt(at), scene.nameOf) };
    const { names, logits } = scene.drawnFrom;
    const { after, kept } = sampled(logits.data, state.temperature, state.topK, state.topP), { counts, last } = tallied(after, kept, state.draws);
    scene.tally = { counts, after, names };
    said.textContent = state.draws
      ? `${counted(state.draws, "draw")}${changes.isAny ? " from the changed model" : ""}; the last: ${last.map((n) => (names[n] === undefined ? "a rare token" : quoted(names[n]))).join(", ")}.${state.draws === MOST_DRAWS ? " This page draws no more." : ""}`
      : `Nothing is drawn yet${changes.isAny ? " from the changed model" : ""}.`;
    box.textContent = "";
    drawTally(box, scene);
  });
}

// How often each of the likeliest was drawn, and the last five. The n-th draw depends on n alone.
function tallied(after, kept, draws) {
  const sums = [], counts = new Array(kept).fill(0), random = makeRandom(0), last = [];
  after.slice(0, kept).reduce((sum, p, n) => (sums[n] = sum + p), 0);
  for (let n = 0; n < draws; n += 1) {
    const mark = random() * sums[kept - 1];
    let low = 0, high = kept - 1; // the first whose sum is beyond the mark
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] > mark) high = middle;
      else low = middle + 1;
    }
    counts[low] += 1;
    if (n >= draws - 5) last.push(low);
  }
  return { counts, last };
}

function drawTally(box, scene) {
  const { counts, after, names } = scene.tally, shown = Math.min(SHOWN_DRAWN, counts.length, names.length), table = add(box, "table", { class: "bars tally" });
  const head = add(add(table, "thead"), "tr"), body = add(table, "tbody"), rows = [];
  for (const name of ["token", "", "p", "drawn"]) add(head, "th", { scope: "col" }, name);
  const most = Math.max(after[0], ...counts.map((count) => count / Math.max(1, state.draws)));
  for (let n = 0; n < shown; n += 1) {
    const row = means(add(body, "tr"), "drawn", n), share = state.draws ? counts[n] / state.draws : 0;
    add(row, "th", { scope: "row", dir: "auto" }, short(visible(names[n]), 22));
    const cell = add(row, "td", { class: "bar-cell" });
    add(cell, "span", { class: "bar-fill" }).style.width = `${(100 * after[n]) / most}%`;
    add(cell, "span", { class: "bar-fill of-draws" }).style.width = `${(100 * share) / most}%`;
    add(row, "td", { class: "value" }, percent(after[n]));
    add(row, "td", { class: "value" }, state.draws ? `${number(counts[n])} (${percent(share)})` : "–");
    rows.push(row);
  }
  rove(body, rows, 1);
  const others = counts.slice(shown), [drawn, p] = [others.reduce((a, b) => a + b, 0), after.slice(shown, counts.length).reduce((a, b) => a + b, 0)];
  if (others.length) add(box, "p", { class: "quiet-text" }, `${counted(others.length, "other token")}: ${percent(p)} together, drawn ${counted(drawn, "time")}.`);
}

declare("drawn", {
  sources: () => [ref("slider", 0), ref("slider", 1), ref("slider", 2)],
  lines(n) {
    const { counts, after, names } = scene.tally, p = after[n], { draws } = state;
    if (counts[n] === undefined) return null; // it can no longer be drawn
    return [
      [`${quoted(names[n])} with probability `, term(percent(p, 2), "result")],
      draws ? [`${number(counts[n])} / ${number(draws)} draws = ${percent(counts[n] / draws, 2)}; expected ${inSum(draws * p)} ± ${inSum(Math.sqrt(draws * p * (1 - p)))} (√(n · p · (1 − p)))`] : ["nothing is drawn yet"],
    ];
  },
});
