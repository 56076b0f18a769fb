// Chapter 5: the prediction. All probabilities, and what sampling would leave of them.

const SHOWN_OPTIONS = 20;

chapters.push({
  id: "prediction",
  title: "Prediction",
  equation: (scene) => [scene.totals === null ? "p = 1 / (1 + e^−logit)" : isSampled(scene) ? "p = softmax(logits / temperature)" : "p = softmax(logits)"],
  note: "",
  isShown: (scene) => scene.predictions.length > 0,
  draw(place, scene) {
    const isPicture = Boolean(scene.main.picture);
    if (scene.labels?.length && scene.predicts === "same") drawTags(place, scene);
    const lead = add(place, "p", { class: "lead" });
    follow(["token"], () => { lead.textContent = `What the model predicts for ${whatIsPredicted(scene)}.`; });
    if (scene.palette) drawPalette(place, scene);
    const controls = add(place, "div", { class: "controls" }), sides = add(place, "div", { class: "side" });
    if (isSampled(scene)) drawSampling(add(sides, "div"), scene, controls);
    else drawOptions(add(sides, "div"), scene);
    if (scene.members?.length) drawMembers(place, scene);
    if (scene.contributions) drawContributions(place, scene);
    if (isPicture && scene.predicts === "next") drawSurprisePicture(add(sides, "div"), scene);
    else if (scene.predictions.some(({ logprob }) => logprob !== null)) drawSurprise(add(sides, "div"), scene);
  },
});

// The number of the prediction that is looked at: that of the chosen token, or the only one.
const predictionAt = ({ predicts, predictions }) => (["next", "same"].includes(predicts) ? Math.min(state.token, predictions.length - 1) : 0);

function whatIsPredicted({ main, predicts, streams }) {
  if (predicts === "whole") return `the label of the ${main.picture ? "picture" : "text"}`;
  if (predicts === "same") return "the chosen token";
  if (main.picture) return "the pixel after the chosen one";
  return streams.length === 1 && state.token === main.tokens.length - 1 ? "the token after the text" : `the token after ${quoted(main.tokens[state.token])}`;
}

// All logits of a prediction, if the page carries them or can compute them.
function distributionAt(scene, at) {
  if (!scene.distributions[at] && scene.logitsAt) scene.distributions[at] = liveDistribution(scene.logitsAt(at), scene.nameOf);
  return scene.distributions[at] ?? null;
}

// Texts are drawn token by token, with sliders for how.
const isSampled = ({ predicts, main }) => predicts === "next" && !main.picture;

function drawOptions(place, scene) {
  const isWhole = scene.predicts === "whole";
  const box = addFigure(place, { name: "Probabilities", of: isWhole ? [] : ["token"], caption: isWhole ? "The labels and their probabilities." : "The likeliest tokens and their probabilities." });
  follow(["token"], () => {
    box.textContent = "";
    const at = predictionAt(scene), { options, actual, logprob } = scene.predictions[at];
    const where = scene.predicts === "next" ? "After " : "At ", isColour = scene.main.picture?.unit === "pixel";
    if (!isWhole) writeProse(add(box, "p", { class: "said" }), [where, tokenPick(scene.main, "token", state.token, "token", "query")]);
    const isListed = options.some(({ token }) => token === actual);
    if (isPainted(scene)) setCaption(box, `The likeliest colours and their probabilities. ${actual === null || isListed ? "Red: the one that is there." : `There is ${actual}, with ${percent(Math.exp(logprob))}.`}`);
    drawBars(box, options.map(({ token, probability }, n) => ({
      name: token, value: probability, text: percent(probability), of: ["option", at, n],
      swatch: isColour ? token : null, style: isColour && token === actual ? "chosen" : "",
    })), options[0].probability, isWhole ? "label" : "token");
  });
}

// p = sharesOf(logits / temperature), then only the top k, then only the most likely with total p.
function sampled(logits, temperature, topK, topP) {
  const scaled = Array.from(logits, (each) => each / Math.max(temperature, 1e-3));
  const shares = sharesOf(scaled); // sorted, as the logits are
  let kept = topK > 0 ? Math.min(topK, shares.length) : shares.length, sum = 0;
  const within = shares.slice(0, kept).reduce((a, b) => a + b, 0);
  for (let n = 0; n < kept; n += 1) {
    sum += shares[n] / within;
    if (topP < 1 && sum >= topP) kept = n + 1;
  }
  const left = shares.slice(0, kept).reduce((a, b) => a + b, 0);
  return { shares, kept, after: shares.map((each, n) => (n < kept ? each / left : 0)) };
}

const SLIDERS = [
  ["temperature", "temperature", { min: 0.05, max: 2, step: 0.05 }, (t) => t.toFixed(2)],
  ["top-k", "topK", { min: 0, max: 50, step: 1 }, (k) => (k ? String(k) : "off")],
  ["top-p", "topP", { min: 0.05, max: 1, step: 0.05 }, (p) => (p < 1 ? p.toFixed(2) : "off")],
];

function addSliders(controls) {
  SLIDERS.forEach(([label, name, attributes, shown], n) => {
    const line = means(add(controls, "label", { class: "control" }, `${label} `), "slider", n);
    const input = add(line, "input", { type: "range", value: state[name], ...attributes });
    const value = add(line, "output", {}, "");
    input.setAttribute("value", state[name]);
    follow([name], () => {
      value.textContent = shown(state[name]);
      input.value = state[name];
      input.setAttribute("aria-valuetext", shown(state[name]));
    });
    input.addEventListener("input", () => choose({ [name]: Number(input.value) }));
  });
}

function drawSampling(place, scene, controls) {
  addSliders(controls);
  const said = add(place, "p", { class: "said", "aria-live": "polite" });
  const box = addFigure(place, { name: "Probabilities of the next token" });
  follow(["token", "temperature", "topK", "topP"], () => {
    const at = predictionAt(scene), found = distributionAt(scene, at);
    box.textContent = "";
    controls.hidden = !found;
    if (!found) return drawLikeliest(box, said, scene, at);
    const { shares, kept, after } = sampled(found.logits.data, state.temperature, state.topK, state.topP);
    const cut = shares.slice(kept).reduce((a, b) => a + b, 0);
    said.textContent = kept === shares.length
      ? `All ${number(shares.length)} tokens can be drawn.`
      : `${number(kept)} of ${number(shares.length)} tokens can be drawn; ${percent(cut)} of the probability is cut off.`;
    const names = found.names.slice(0, SHOWN_OPTIONS);
    drawBars(box, names.map((name, n) => ({
      name, value: n < kept ? after[n] : shares[n], text: n < kept ? percent(after[n]) : `cut (${percent(shares[n])})`,
      style: n < kept ? "" : "cut", of: ["sampled", n],
    })), Math.max(after[0], 1e-9), "token");
    setCaption(box, `The ${names.length} likeliest of ${number(shares.length)} tokens at ${SLIDERS.map(([label, name, , shown]) => `${label} ${shown(state[name])}`).join(", ")}.`);
  });
}

// Without all logits, there are no sliders.
function drawLikeliest(box, said, scene, at) {
  const { options } = scene.predictions[at], known = Object.keys(scene.distributions).map(Number);
  said.textContent = `The page has the probabilities of all tokens, and the sliders, only after ${known.map((n) => quoted(scene.main.tokens[n])).join(", ")}.`;
  drawBars(box, options.map(({ token, probability }, n) => ({ name: token, value: probability, text: percent(probability), of: ["option", at, n] })), options[0].probability, "token");
  setCaption(box, `The ${options.length} likeliest tokens.`);
}

// The probability of the text, token by token.
function drawSurprise(place, scene) {
  const isNextToken = scene.predicts === "next";
  add(place, "h3", {}, isNextToken ? "How likely was the text?" : "How sure is the model of each token?");
  const said = add(place, "p", { class: "said" });
  const box = addFigure(place, { name: isNextToken ? "How likely the text was" : "How sure the model is", style: "wide", caption: "The stronger the colour, the more surprising the token (in bits)." });
  const row = add(box, "p", { class: "passage", dir: "auto" });
  const all = scene.predictions.map((each, at) => ({ ...each, at })), known = all.filter(({ logprob }) => logprob !== null);
  const bits = known.map(({ logprob }) => -logprob / Math.LN2), most = Math.max(8, ...bits);
  if (isNextToken && scene.streams.length === 1) add(row, "span", {}, scene.main.tokens[0]);
  const shown = isNextToken ? known : all; // the others, such as a mask, have no colour
  const parts = shown.map((each) => {
    if (scene.separator && row.childNodes.length) row.append(scene.separator);
    const n = known.indexOf(each);
    if (n < 0) return add(row, "span", {}, scene.main.tokens[each.position]);
    const part = add(row, "span", { class: "token", role: "button", "data-acts": "", "aria-label": `${visible(each.actual)}, ${bits[n].toFixed(1)} bits` }, each.actual);
    part.style.setProperty("--share", bits[n] / most);
    pressable(part, () => choose({ token: each.position, key: null }));
    return means(part, "surprise", each.at);
  });
  rove(row, parts.filter((part) => part.hasAttribute("data-acts")));
  follow(["token"], () => parts.forEach((part, n) => part.classList.toggle("followed", shown[n].at === predictionAt(scene))));
  if (!isNextToken) {
    said.textContent = "The model sees these tokens while it predicts them. Put [MASK] in place of a word to hide it.";
    return;
  }
  const total = known.reduce((sum, { logprob }) => sum + logprob, 0);
  said.textContent = `${known.length} tokens; perplexity ${number(Math.exp(-total / known.length))}: as if the model chose among that many equally likely tokens each time.`;
}
