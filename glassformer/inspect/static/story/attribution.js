// What a prediction rests on: attention beside opinions that do not rest on attention.

const ABOUT_METHODS = {
  attention: "How much the position of the prediction looks at each token: the mean over all layers and heads.",
  rollout: "Attention followed from the last layer to the first; half of what each token passes on is its own.",
  attention_gradient: "Each weight times the gradient of the log-probability, summed over all layers, heads and queries.",
  integrated_gradients: "How much each token adds to the log-probability on the way from the baseline to this text.",
  left_out: "How much the log-probability falls if the vector of this token is replaced by the baseline: a run of the model for each token.",
};

chapters.push({
  id: "attribution",
  title: "What the prediction rests on",
  note: (scene) => {
    const methods = scene.attribution.methods ?? [], units = unitsOf(scene.streams[0]);
    const hasAttention = !methods.length || methods[0][0] === "attention";
    return hasAttention ? `Attention beside four other measures of which ${units} matter for one prediction.` : `Measures of which ${units} matter for one prediction.`;
  },
  isShown: (scene) => Boolean(scene.attribution),
  draw(place, scene) {
    if (!scene.attribution.explained) {
      const isPicture = Boolean(scene.streams[0].picture), cure = isPicture ? "" : " Run “glassformer inspect” with “--view attribution”.";
      const why = scene.attribution.is_too_long ? `For this ${isPicture ? "model and picture" : "text"}, it would take too long to write the page.` : "Gradients need Python: the page has them for the text that it was written for.";
      add(place, "p", { class: "hint" }, `${why}${cure}`);
      return;
    }
    const box = add(place, "div");
    follow(["token"], () => {
      box.textContent = "";
      drawOpinions(box, scene);
    });
    const looks = scene.attribution.methods[0][0] === "attention" ? "Attention shows where a head looks, not what the answer depends on: a token can be looked at and ignored, or matter through a single head. " : "";
    const honest = "Gradients show what a small change would do, and depend on the baseline. Leaving a token out shows what is lost without it: if two tokens say the same, losing one of them changes little. No method is the truth; trust what several agree on.";
    add(place, "p", { class: "hint honest" }, inUnits(looks + honest, scene.streams[0]));
  },
});

// What is said of tokens, of the patches or pixels of a picture.
function inUnits(text, stream) {
  return text.replaceAll("tokens", unitsOf(stream)).replaceAll("token", oneOf(stream));
}

function drawOpinions(box, scene) {
  const { explained, baseline } = scene.attribution, [read] = scene.streams;
  const methods = scene.attribution.methods.map(([name, label]) => [name, inUnits(label, read)]);
  const wanted = scene.predicts === "whole" ? 0 : state.token;
  const number = explained[wanted] ? wanted : Number(Object.keys(explained)[0]);
  const found = explained[number];
  const where = { next: "after", same: "at" }[scene.predicts];
  const isWhole = !where, said = add(box, "p", { class: "said" });
  const pick = isWhole ? [`for the whole ${read.picture ? "picture" : "text"}`] : [`${where} `, tokenPick(scene.main, "token", number, "token", "query")];
  writeProse(said, ["The prediction ", ...pick, `: ${quoted(found.token)} ${percent(Math.exp(found.logprob))}`]);
  if (number !== wanted) add(box, "p", { class: "hint" }, `The ${read.picture ? "picture" : "text"} is too long to explain every prediction in advance: this is the one at which the page opened.`);
  if (read.picture) drawOpinionMaps(box, scene, read, found, methods);
  else drawOpinionTable(box, scene, number, found, methods);
  const sum = found.values.integrated_gradients.reduce((a, b) => a + b, 0), gap = found.logprob - found.baseline_logprob;
  const words = read.picture && scene.streams.length > 1 ? " The words that were written before stay as they are." : "";
  const meant = isPainted(scene) ? baseline.replace("token", "colour") : baseline;
  add(box, "p", { class: "hint" }, `The baseline is ${meant}${read.picture && !isPainted(scene) ? ", everywhere" : ", at the same positions"}; with it, the log-probability of ${quoted(found.token)} is ${found.baseline_logprob.toFixed(3)} instead of ${found.logprob.toFixed(3)}. The integrated gradients of all ${unitsOf(read)} sum to ${sum.toFixed(3)}; the difference is ${gap.toFixed(3)} (error ${Math.abs(found.error).toExponential(0)}, ${found.num_steps} steps).${words}`);
  drawAgreement(box, found.correlations, methods, read);
}

function drawOpinionTable(box, scene, number, found, methods) {
  const drawn = addFigure(box, { name: "What the prediction rests on", of: ["token"], style: "wide", caption: "Each column has its own scale: its longest bar is its largest number. Blue: for the prediction. Orange: against it." });
  const table = add(add(drawn, "div", { class: "scroll" }), "table", { class: "opinions" });
  const head = add(add(table, "thead"), "tr");
  add(head, "th", { scope: "col" }, "token");
  for (const [name, label] of methods) add(head, "th", { scope: "col", title: ABOUT_METHODS[name] }, label);
  const body = add(table, "tbody");
  let first = 0;
  for (const stream of scene.streams) {
    if (scene.streams.length > 1) add(add(body, "tr", { class: "part" }), "th", { scope: "rowgroup", colspan: methods.length + 1 }, stream.name);
    drawStreamOpinions(body, scene, stream, first, number, found, methods);
    first += stream.tokens.length;
  }
}

// A map over the picture for each method: blue for the prediction, orange against it.
// A map with numbers of both signs has a scale of both.
function signedCaption({ values }, methods) {
  const isSigned = methods.some(([name]) => values[name].some((value) => value < 0));
  const scales = isSigned ? "from 0 to its largest number or, if some are negative, symmetric around 0" : "from 0 to its largest number";
  return `Each map has its own scale, ${scales}. Blue: for the prediction.${isSigned ? " Orange: against it." : ""} Point at a place to read its number.`;
}

function drawOpinionMaps(box, scene, { picture }, found, methods) {
  const drawn = addFigure(box, { name: "What the prediction rests on", of: scene.predicts === "whole" ? [] : ["token"], style: "wide", caption: signedCaption(found, methods) });
  const row = add(drawn, "div", { class: isStrip(picture) ? "opinion-maps stacked" : "opinion-maps" });
  for (const [name, label] of methods) {
    const part = add(row, "div"), values = found.values[name].slice(picture.num_extra, picture.num_extra + placesIn({ picture }));
    add(part, "p", { class: "over", title: inUnits(ABOUT_METHODS[name], { picture }) }, label);
    const isShare = ["attention", "rollout"].includes(name), format = isShare ? percent : (value) => (value ? withSign(Number(value.toPrecision(2))) : "0");
    const map = drawPicture(part, picture, `${label} over the picture`, { most: isStrip(picture) ? 560 : 200, isGrey: true, act: { point: () => {} } });
    const most = Math.max(...values.map(Math.abs), 1e-12), isSigned = values.some((value) => value < 0);
    map.numberAt = (place) => (values[place] === undefined ? "" : format(values[place]));
    map.cells.forEach((cell, place) => {
      const [red, green, blue, alpha] = signedOver((values[place] ?? 0) / most);
      cell.setAttribute("fill", `rgb(${red} ${green} ${blue})`);
      cell.setAttribute("fill-opacity", (alpha / 255).toFixed(3));
    });
    addScale(part, most, { colour: signedOver, format, style: "heat-bar", isSigned });
  }
}

// [r, g, b, a] from −1 to 1, over a picture in grey: light enough to be seen on black.
const signedOver = (share) => [...(share < 0 ? [255, 150, 60] : [90, 170, 255]), 235 * Math.abs(share) ** 0.7];

function drawStreamOpinions(body, scene, stream, first, number, found, methods) {
  const most = Object.fromEntries(methods.map(([name]) => [name, Math.max(1e-12, ...found.values[name].map(Math.abs))]));
  const isSigned = Object.fromEntries(methods.map(([name]) => [name, found.values[name].some((value) => value < 0)]));
  stream.tokens.forEach((token, place) => {
    if (found.values.integrated_gradients[first + place] === 0) return; // the prediction cannot see it
    const isExplained = stream === scene.main && place === number && scene.predicts !== "whole";
    const row = add(body, "tr", { class: isExplained ? "chosen" : "" });
    const label = add(row, "th", { scope: "row", dir: "auto" });
    if (stream === scene.main && scene.predicts !== "whole") {
      add(label, "button", { type: "button", class: "plain" }, short(visible(token), 18)).addEventListener("click", () => choose({ token: place }));
    } else label.textContent = short(visible(token), 18);
    for (const [name] of methods) {
      const value = found.values[name][first + place], share = value / most[name];
      const cell = add(row, "td", { class: isSigned[name] ? "opinion signed" : "opinion", title: `${visible(token)}: ${value.toPrecision(3)}` });
      const bar = add(add(cell, "span", { class: "track" }), "span", { class: value < 0 ? "less" : "more" });
      const half = isSigned[name] ? 50 : 100, zero = isSigned[name] ? 50 : 0;
      bar.style.left = `${zero - (value < 0 ? half * -share : 0)}%`;
      bar.style.width = `${half * Math.abs(share)}%`;
      add(cell, "span", { class: "amount" }, value.toFixed(Math.abs(value) < 0.095 ? 3 : 2));
    }
  });
}

// How alike two methods order the tokens, in words.
function likeness(correlation) {
  if (correlation === null) return "cannot be compared";
  if (Math.abs(correlation) < 0.3) return "hardly agree";
  if (correlation < 0) return "disagree: where one is large, the other is small";
  return correlation < 0.7 ? "agree in part" : "order the tokens alike";
}

function drawAgreement(box, correlations, methods, stream) {
  add(box, "h3", {}, "Do they agree?");
  const attention = correlations.filter(([a]) => a === "attention");
  const names = Object.fromEntries(methods);
  if (attention.length) {
    const parts = attention.map(([, other, value]) => `${names[other]} ${value === null ? "–" : value.toFixed(2)}`);
    const [, , exact] = attention.find(([, other]) => other === "integrated_gradients");
    add(box, "p", {}, `Here, mean attention and integrated gradients ${inUnits(likeness(exact), stream)}. Rank correlation of mean attention with the others: ${parts.join(", ")}.`);
  }
  const drawn = addFigure(box, { name: "Do the methods agree?", of: ["token"], caption: inUnits("Spearman’s rank correlation of the sizes, without their signs, over the tokens that the prediction can see: 1 if two methods order them alike, 0 if the orders are unrelated.", stream) });
  const table = add(add(drawn, "div", { class: "scroll" }), "table", { class: "agreement" });
  const head = add(add(table, "thead"), "tr");
  add(head, "th", {}, "");
  for (const [, label] of methods.slice(1)) add(head, "th", { scope: "col" }, label);
  const body = add(table, "tbody");
  methods.slice(0, -1).forEach(([one, label], n) => {
    const row = add(body, "tr");
    add(row, "th", { scope: "row" }, label);
    methods.slice(1).forEach(([other], m) => {
      const found = m < n ? null : correlations.find(([a, b]) => a === one && b === other);
      const cell = add(row, "td", {}, found ? (found[2] === null ? "–" : found[2].toFixed(2)) : "");
      if (found?.[2] !== null && found) {
        cell.setAttribute("class", found[2] < 0 ? "minus" : "plus");
        cell.style.setProperty("--share", Math.abs(found[2]));
      }
    });
  });
}
