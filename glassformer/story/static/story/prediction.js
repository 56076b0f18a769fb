// Chapter 5: the prediction. All probabilities, and what sampling would leave of them.

const SHOWN_OPTIONS = 20;

chapters.push({
  id: "prediction",
  title: "Prediction",
  note: "",
  draw(place, scene) {
    const isPicture = Boolean(scene.main.picture);
    const what = {
      next: isPicture ? "the pixel after the chosen one" : scene.focus === scene.main.tokens.length - 1 ? "the token after the text" : `the token after ${quoted(scene.main.tokens[scene.focus])}`,
      same: "the chosen token", whole: `the label of the ${isPicture ? "picture" : "text"}`,
    }[scene.predicts];
    if (scene.labels?.length && scene.predicts === "same") drawTags(place, scene);
    add(place, "p", { class: "hint" }, `What the model predicts for ${what}.`);
    if (scene.predicts === "next" && !isPicture) drawSampling(place, scene);
    else drawOptions(place, scene);
    if (scene.contributions) drawContributions(place, scene);
    if (isPicture && scene.predicts === "next") drawSurprisePicture(place, scene);
    else if (scene.predictions.some(({ logprob }) => logprob !== null)) drawSurprise(place, scene);
  },
});

function drawOptions(place, scene) {
  const box = add(place, "div", { class: "options" });
  follow(["token"], () => {
    box.textContent = "";
    const isWhole = scene.predicts === "whole";
    const found = scene.predictions[isWhole ? 0 : Math.min(state.token, scene.predictions.length - 1)];
    const where = scene.predicts === "next" ? "After" : "At";
    if (!isWhole) add(box, "p", { class: "said" }, `${where} ${quoted(scene.main.tokens[state.token])}`);
    const isColour = scene.main.picture?.unit === "pixel";
    drawBars(box, found.options.map(({ token, probability }) => ({
      name: token, value: probability, text: percent(probability), swatch: isColour ? token : null,
      style: isColour && token === found.actual ? "chosen" : "",
    })), found.options[0].probability);
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

function drawSampling(place, scene) {
  const controls = add(place, "div", { class: "controls" });
  const logits = scene.distribution.logits.data;
  const slider = (label, name, attributes, shown) => {
    const line = add(controls, "label", { class: "control" }, `${label} `);
    const input = add(line, "input", { type: "range", value: state[name], ...attributes });
    const value = add(line, "output", {}, "");
    follow([name], () => { value.textContent = shown(state[name]); });
    input.addEventListener("input", () => choose({ [name]: Number(input.value) }));
  };
  slider("temperature", "temperature", { min: 0.05, max: 2, step: 0.05 }, (t) => t.toFixed(2));
  slider("top-k", "topK", { min: 0, max: 50, step: 1 }, (k) => (k ? String(k) : "off"));
  slider("top-p", "topP", { min: 0.05, max: 1, step: 0.05 }, (p) => (p < 1 ? p.toFixed(2) : "off"));
  const said = add(place, "p", { class: "said" });
  const box = add(place, "div", { class: "options" });
  follow(["temperature", "topK", "topP"], () => {
    const { shares, kept, after } = sampled(logits, state.temperature, state.topK, state.topP);
    const cut = shares.slice(kept).reduce((a, b) => a + b, 0);
    said.textContent = kept === shares.length
      ? `All ${number(shares.length)} tokens can be drawn.`
      : `${number(kept)} of ${number(shares.length)} tokens can be drawn; ${percent(cut)} of the probability is cut off.`;
    box.textContent = "";
    const names = scene.distribution.names.slice(0, SHOWN_OPTIONS);
    drawBars(box, names.map((name, n) => ({
      name, value: n < kept ? after[n] : shares[n], text: n < kept ? percent(after[n]) : `cut (${percent(shares[n])})`,
      style: n < kept ? "" : "cut",
    })), Math.max(after[0], 1e-9));
  });
}

// The probability of the text, token by token.
function drawSurprise(place, scene) {
  const isNextToken = scene.predicts === "next";
  add(place, "h3", {}, isNextToken ? "How likely was the text?" : "How sure is the model of each token?");
  const said = add(place, "p", { class: "said" }), row = add(place, "p", { class: "passage", dir: "auto" });
  const known = scene.predictions.filter(({ logprob }) => logprob !== null);
  const bits = known.map(({ logprob }) => -logprob / Math.LN2), most = Math.max(8, ...bits);
  if (isNextToken && scene.streams.length === 1) add(row, "span", {}, scene.main.tokens[0]);
  known.forEach((each, n) => {
    if (scene.separator && row.childNodes.length) row.append(scene.separator);
    const part = add(row, "span", { class: "token", tabindex: 0 }, each.actual);
    part.style.setProperty("--share", bits[n] / most);
    const tell = () => {
      said.textContent = `${quoted(each.actual)} had ${percent(Math.exp(each.logprob))} (${bits[n].toFixed(1)} bits); the model expected ${each.options.slice(0, 3).map(({ token, probability }) => `${quoted(token)} ${percent(probability)}`).join(", ")}`;
    };
    part.addEventListener("mouseenter", tell);
    part.addEventListener("focus", tell);
    part.addEventListener("click", () => choose({ token: each.position }));
  });
  if (!isNextToken) {
    said.textContent = "The model sees these tokens while it predicts them. Put [MASK] in place of a word to hide it.";
    return;
  }
  const total = known.reduce((sum, { logprob }) => sum + logprob, 0);
  const mean = Math.exp(-total / known.length);
  said.textContent = `${known.length} tokens; perplexity ${number(mean)}: as if the model chose among that many equally likely tokens each time.`;
}
