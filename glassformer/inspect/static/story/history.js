// The last chapter: while it learned. The same text through the snapshots of the training, beside
// the curves and the samples of the run. One slider moves all of it.

state.moment = usualState.moment = null; // the number of the snapshot that is looked at

const MOMENT_LASTS = 900; // milliseconds, while it plays
let player = null;

chapters.push({
  id: "history",
  title: "While it learned",
  note: "",
  isShown: (scene) => Boolean(scene.history),
  draw(place, scene) {
    const history = unpackedHistory(scene.history), last = history.steps.length - 1;
    stopPlaying();
    if (last < 0) {
      add(place, "p", { class: "hint" }, "This run kept no snapshots of its weights, so there are only its curves and samples.");
      drawRecord(place, history);
      return;
    }
    add(place, "p", { class: "lead" }, "The run kept its weights at a few steps. Here the model reads the same text with each of them. Move the slider, or press on a chart.");
    if (state.moment === null) {
      state.moment = last;
      fromAddress({ moment: last });
    }
    const isOther = scene.text !== history.text;
    if (isOther) add(place, "p", { class: "hint" }, `This chapter stays with the text that was inspected: ${quoted(history.text)}`);
    addTimeline(place, history);
    tellOfOtherSteps(add(place, "p", { class: "hint" }), scene, history, isOther);
    drawRecord(place, history);
    drawPastText(place, history, isOther);
    drawPastPrediction(place, history, isOther);
    if (Object.keys(history.maps).length) {
      add(place, "h3", {}, "Attention");
      drawPastHeads(place, history);
    }
  },
});

function unpackedHistory(history) {
  for (const maps of Object.values(history.maps)) {
    if (maps.weights.dtype) maps.weights = unpacked(maps.weights);
  }
  return history;
}

// The prediction that is looked at: that of the chosen token, as far as this text is the one above.
const pastPlace = (history, isOther) => (
  history.predicts === "whole" ? 0 : isOther ? history.focus : Math.min(state.token, history.actual.length - 1)
);

// --- the chapters above ---

// The snapshot whose predictions are those of the chapters above; -1: none.
function momentAbove({ predictions }, { options }) {
  const isSame = (moment) => predictions.every((each, at) => {
    const [name, share] = moment[at][0], best = each.options[0];
    return name === best.token && Math.abs(share - best.probability) < 1e-3;
  });
  return options.findLastIndex(isSame);
}

// Numbers of other steps are other numbers: the reader is told where these chapters agree.
function tellOfOtherSteps(line, scene, history, isOther) {
  if (isOther || !scene.predictions) return void line.remove(); // another text, or a page of its own
  const { steps } = history, above = momentAbove(scene, history), name = (moment) => `step ${number(steps[moment])}`;
  const isSilent = (scene.silent ?? []).length > 0;
  follow(["moment"], () => {
    if (isSilent) line.textContent = "Heads are switched off in the chapters above; here, all heads are on.";
    else if (above < 0) line.textContent = "The chapters above show the model that the run kept as its best, from a step without a snapshot: their probabilities differ from those below.";
    else if (above === state.moment) line.textContent = `The chapters above show the same model, of ${name(above)}.`;
    else line.textContent = `The chapters above show the model of ${name(above)}, which the run kept; below is ${name(state.moment)}, whose probabilities differ.`;
  });
}

// --- the slider ---

function stopPlaying() {
  clearInterval(player);
  player = null;
}

function addTimeline(place, history) {
  const last = history.steps.length - 1, bar = add(place, "div", { class: "timeline" });
  const calm = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)");
  const move = (by) => choose({ moment: Math.max(0, Math.min(last, state.moment + by)) });
  const button = (text, name, pressed) => {
    const found = add(bar, "button", { type: "button", "aria-label": name }, text);
    found.addEventListener("click", pressed);
    return found;
  };
  const play = button("▶ Play", "play through the training", () => {
    if (player !== null) stopPlaying();
    else {
      if (state.moment === last) choose({ moment: 0 });
      player = setInterval(() => {
        move(1);
        if (state.moment === last) stopPlaying();
        name();
      }, MOMENT_LASTS);
    }
    name();
  });
  const name = () => { play.textContent = player === null ? "▶ Play" : "❚❚ Pause"; };
  // Someone who asked for less motion moves it step by step.
  const heed = () => {
    if (calm?.matches) stopPlaying();
    play.hidden = Boolean(calm?.matches);
    name();
  };
  calm?.addEventListener?.("change", heed);
  heed();
  button("‹", "one snapshot back", () => move(-1));
  const slider = add(bar, "input", { type: "range", min: 0, max: last, step: 1, "aria-label": "snapshot of the training" });
  slider.addEventListener("input", () => choose({ moment: Number(slider.value) }));
  button("›", "one snapshot on", () => move(1));
  const said = add(bar, "output", { class: "said" });
  follow(["moment"], () => {
    slider.value = state.moment;
    const step = number(history.steps[state.moment]);
    slider.setAttribute("aria-valuetext", `step ${step}`);
    const first = state.moment === 0 && history.steps[0] === 0 ? ", before training" : "";
    said.textContent = `step ${step} of ${number(history.steps[last])}${first}`;
  });
}

// --- what the run wrote down ---

function drawRecord(place, history) {
  const { metrics, samples, steps } = history;
  const layout = add(place, "div", { class: "record" });
  const series = (name) => (metrics[name] ?? []).map((value, n) => [metrics.step[n], value]).filter(([, value]) => value !== null);
  const lines = [
    { points: series("train_loss"), label: "training", style: "training run-1" },
    { points: series("val_loss"), label: "validation", style: "run-0" },
  ].filter(({ points }) => points.length);
  const chart = lines.length ? addFigure(layout, { name: "Loss of the run", caption: lines.length > 1 ? "Loss of the run. Training: the mean over the last batches, with dropout, augmentation and smoothed targets if the recipe has them; validation: held-out data without these. So training loss may be the higher one." : "Loss of the run." }) : null;
  const box = samples.length ? add(layout, "div", { class: "sample" }) : null;
  if (chart) { // drawn when all columns are there, and it has its width
    drawTimeChart(chart, history, { title: "loss over the steps of the training", lines });
  }
  if (!box) return;
  const caption = add(box, "p", { class: "hint" }), text = add(box, "p", { class: "passage", dir: "auto" });
  const show = () => {
    const now = steps.length ? steps[state.moment] : Infinity;
    const known = samples.filter(([step]) => step <= now);
    const [step, written] = known[known.length - 1] ?? [null, ""];
    caption.textContent = step === null
      ? `The first sample of the run is from step ${number(samples[0][0])}.`
      : `Sample of the run, from step ${number(step)}`;
    text.textContent = written;
    text.hidden = step === null;
  };
  if (steps.length) follow(["moment"], show);
  else show();
}

// --- the text ---

function drawPastText(place, history, isOther) {
  const known = history.actual.map((token, n) => ({ token, n })).filter(({ n }) => history.logprobs[0][n] !== null);
  const hasWritten = history.written.some((each) => each !== null);
  if (!known.length && !hasWritten) return;
  add(place, "h3", {}, history.source ? "The translation" : "The text");
  const said = add(place, "p", { class: "said" });
  const layout = add(place, "div", { class: "record" }), left = add(layout, "div");
  if (known.length) add(left, "p", { class: "hint" }, `The stronger the colour, the less likely the token was.${history.predicts === "same" ? " The model sees these tokens while it predicts them." : ""}`);
  const row = add(left, "p", { class: "passage", dir: "auto" });
  const bitsOf = (moment, n) => -history.logprobs[moment][n] / Math.LN2;
  const most = Math.max(1, ...history.steps.flatMap((_, moment) => known.map(({ n }) => bitsOf(moment, n))));
  const isNext = history.predicts === "next";
  if (known.length && isNext && !history.source) row.append(history.tokens[0]);
  const isSame = history.predicts === "same", places = new Map(known.map((each) => [each.n, each]));
  // What a model fills in has its place in the text, though its token is not known.
  const shown = isSame ? history.tokens.map((token, n) => places.get(n) ?? { token, n }) : known;
  const spans = shown.map(({ token, n }) => {
    if (history.separator && row.childNodes.length) row.append(history.separator);
    const part = add(row, "span", { class: "token" }, token);
    if (!isOther) part.addEventListener("click", () => choose({ token: n }));
    return part;
  });
  const parts = spans.filter((_, at) => places.has(shown[at].n));
  const own = hasWritten ? add(row, "span", { class: "own-words" }) : null;
  if (own && history.source) add(left, "p", { class: "passage", dir: "auto" }).append(own);
  follow(["moment"], () => {
    const bits = known.map(({ n }) => bitsOf(state.moment, n));
    parts.forEach((part, n) => {
      part.style.setProperty("--share", bits[n] / most);
      part.title = `${percent(2 ** -bits[n])} (${bits[n].toFixed(1)} bits)`;
    });
    const mean = bits.reduce((a, b) => a + b, 0) / Math.max(1, bits.length);
    said.textContent = known.length ? `${mean.toFixed(2)} bits a token${isSame ? "" : `: perplexity ${number(2 ** mean)}`}` : "";
    if (!own) return;
    const written = history.written[state.moment] || "(nothing)";
    own.textContent = written.trim() ? written : visible(written);
  });
  if (own) add(left, "p", { class: "hint" }, history.source ? "Violet: what it translates at this step, by greedy decoding." : "Violet: how it goes on at this step, by greedy decoding.");
  if (!known.length) return;
  follow(["token"], () => {
    const chosen = standingOut(known, history, isOther);
    parts.forEach((part, n) => part.classList.toggle("followed", n === chosen));
  });
  drawPastShares(addFigure(layout, { name: "Probability of each token of the text", of: ["token"] }), history, known, isOther);
}

// The token whose curve stands out: the one that the chosen place predicts; after the last token of a
// text, which predicts nothing that is known, that token itself.
function standingOut(known, history, isOther) {
  const at = pastPlace(history, isOther), found = known.findIndex(({ n }) => n === at);
  return found >= 0 ? found : Math.max(0, known.findLastIndex(({ n }) => n <= at));
}

// The probability of every token of the text, as curves, one of which has its name at its end.
function drawPastShares(box, history, known, isOther) {
  const lines = known.map(({ n }) => ({
    points: history.steps.map((step, moment) => [step, Math.exp(history.logprobs[moment][n])]), style: "many",
  }));
  const { svg, x, y } = drawTimeChart(box, history, { title: "probability of the tokens of the text", lines, domain: [0, 1], format: (share) => percent(share, 0), letters: 12 });
  const paths = [...box.querySelectorAll("path.many")], name = add(svg, "text", { class: "line-name chosen-line" });
  paths.forEach((path, n) => { if (!isOther) path.addEventListener("click", () => choose({ token: known[n].n })); });
  follow(["token"], () => {
    const chosen = standingOut(known, history, isOther), [step, share] = lines[chosen].points.at(-1);
    paths.forEach((path, n) => path.classList.toggle("chosen", n === chosen));
    paths[chosen].parentNode.append(paths[chosen]); // on top of the others
    name.setAttribute("x", x(step) + 8);
    name.setAttribute("y", y(share) + 4);
    name.textContent = short(visible(known[chosen].token), 12);
    setCaption(box, `Probability of each token of the ${history.source ? "translation" : "text"}. ${quoted(known[chosen].token)} stands out; choose another one in the text.`);
  });
}

// --- one prediction ---

function drawPastPrediction(place, history, isOther) {
  add(place, "h3", {}, "The prediction");
  const said = add(place, "p", { class: "said" });
  const layout = add(place, "div", { class: "record" });
  const box = addFigure(layout, { name: "The prediction at one step", of: ["token"], style: "options" }), chart = addFigure(layout, { name: "The prediction over the training", of: ["token"], caption: "How the probabilities of the options that are likeliest in the end, and of what is in the text, changed." });
  follow(["moment", "token"], () => {
    const at = pastPlace(history, isOther), options = history.options[state.moment][at];
    const where = { next: "after", same: "at" }[history.predicts];
    said.textContent = where
      ? `At step ${number(history.steps[state.moment])}, ${where} ${quoted(history.tokens[at])}`
      : `At step ${number(history.steps[state.moment])}`;
    box.textContent = "";
    drawBars(box, options.map(([name, share]) => ({
      name, value: share, text: percent(share), style: name === history.actual[at] ? "actual" : "",
    })), Math.max(options[0][1], 0.25));
    if (history.actual[at] !== null) add(box, "p", { class: "hint" }, `In the text: ${quoted(history.actual[at])}`);
  });
  let drawn = null;
  follow(["token"], () => {
    const at = pastPlace(history, isOther);
    if (at === drawn) return;
    drawn = at;
    chart.textContent = "";
    const { names, shares } = history.followed;
    const lines = names[at].map((label, n) => ({
      label, style: `run-${n % 6}`, points: history.steps.map((step, moment) => [step, shares[moment][at][n]]),
    }));
    drawTimeChart(chart, history, { title: "probabilities over the training", lines, domain: [0, Math.max(0.1, ...lines.flatMap(({ points }) => points.map(([, p]) => p)))], format: (share) => percent(share, 0) });
  });
}
