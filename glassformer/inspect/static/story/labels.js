// Labels: what each layer would choose, the tags of a sentence, and what each word adds to a label.

const TAG_COLOURS = 7;

// The colour of a label: parts of one entity (B-NAME, I-NAME) share theirs; "O" has none.
const kindOf = (label) => label.replace(/^[BILUES]-/, "");
const isOutside = (label) => label === "O" || label === "_";

function tagColours(labels) {
  const kinds = [...new Set(labels.filter((label) => !isOutside(label)).map(kindOf))];
  return (label) => (isOutside(label) ? -1 : kinds.indexOf(kindOf(label)) % TAG_COLOURS);
}

// A sentence with the tag of each token below it.
function drawTags(place, scene) {
  const colour = tagColours(scene.labels), row = add(place, "div", { class: "tags", dir: "auto" });
  const chips = scene.predictions.map(({ options: [best], position }) => {
    const chip = add(row, "button", { type: "button", class: `tag-chip tag-${colour(best.token)}` });
    add(chip, "span", { class: "piece" }, visible(scene.main.tokens[position]));
    add(chip, "span", { class: "tag-name" }, isOutside(best.token) ? "·" : short(visible(best.token), 16));
    add(chip, "span", { class: "id" }, percent(best.probability, 0));
    chip.addEventListener("click", () => choose({ token: position, key: null }));
    return chip;
  });
  follow(["token"], () => chips.forEach((chip, number) => {
    chip.classList.toggle("chosen", number === state.token);
    chip.setAttribute("aria-pressed", number === state.token);
  }));
}

// One prediction for all of the input: rows are layers, columns the labels.
function drawLabelLens(place, scene) {
  add(place, "h3", {}, "What each layer would predict");
  const box = addFigure(place, { name: "What each layer would predict", style: "wide", caption: "The states after each layer, read as if it were the last. The stronger the colour, the larger the probability. Bold: above 50%." });
  const names = scene.predictions[0].options.map(({ token }) => token);
  const table = add(add(box, "div", { class: "scroll" }), "table", { class: "lens of-labels" });
  const head = add(add(table, "thead"), "tr");
  add(head, "td", {}, "");
  names.forEach((name) => add(head, "th", { dir: "auto" }, short(visible(name), 14)));
  const body = add(table, "tbody");
  for (let layer = scene.lens.length - 1; layer >= 0; layer -= 1) { // the last layer on top
    const row = add(body, "tr"), shares = new Map(scene.lens[layer][0]);
    add(row, "th", {}, layerName(layer));
    for (const name of names) {
      const share = shares.get(name) ?? 0, cell = add(row, "td", {}, shares.has(name) ? percent(share) : "");
      cell.style.setProperty("--share", share);
      cell.classList.toggle("sure", share > 0.5);
    }
  }
}

// Layers and a bag of n-grams that predict together: the logits of each, which are added, and the
// probabilities that each would give alone.
function drawMembers(place, scene) {
  add(place, "h3", {}, "Whose answer it is");
  const [layers, bag] = scene.members.map(({ weight }) => number(weight));
  const box = addFigure(place, { name: "Whose answer it is", style: "wide", caption: `Layers and a bag of n-grams beside them predict together: logit = a · layers + b · bag, with a = ${layers} and b = ${bag}. ${scene.members[0].weight ? "Attention shows only how the layers read the text. " : ""}Alone: the probabilities that the logits of one member give. Bold: above 50%.` });
  const table = add(add(box, "div", { class: "scroll" }), "table", { class: "lens of-labels" });
  const head = add(add(table, "thead"), "tr");
  for (const name of ["", "a · layers", "+ b · bag", "= logit", "layers alone", "bag alone", "together"]) add(head, "th", { scope: "col" }, name);
  const body = add(table, "tbody"), logits = memberLogits(scene), shares = memberShares(scene);
  for (const { token } of scene.predictions[0].options) {
    const row = add(body, "tr"), label = scene.labels.indexOf(token);
    add(row, "th", { dir: "auto", scope: "row" }, short(visible(token), 22));
    logits.forEach((part, n) => means(add(row, "td", {}, withSign(part[label])), "member", n, label));
    shares.forEach((part, n) => {
      const cell = means(add(row, "td", {}, percent(part[label])), "member-share", n, label);
      cell.style.setProperty("--share", part[label]);
      cell.classList.toggle("sure", part[label] > 0.5);
    });
  }
}

// Of the layers, of the bag, and of both together.
const memberLogits = ({ members: [layers, bag] }) => [layers.logits, bag.logits, layers.logits.map((each, n) => each + bag.logits[n])];
const memberShares = (scene) => memberLogits(scene).map((part) => (scene.totals === null ? part.map((each) => 1 / (1 + Math.exp(-each))) : sharesOf(part)));
const MEMBERS = ["the layers", "the bag of n-grams", "both together"];

// A sum over words: what each adds to the logit of a label. Blue is for it, orange against it.
function drawContributions(place, scene) {
  const { values, bias, logits, is_alone: isAlone, longest_ngram: longest, reads_letters: readsLetters } = scene.contributions;
  const parts = [longest > 2 ? `sequences of up to ${longest} tokens` : longest > 1 ? "pairs" : "", readsLetters ? "letter sequences" : ""].filter(Boolean);
  add(place, "h3", {}, "What each token adds");
  add(place, "p", { class: "hint" }, isAlone
    ? `This model is a sum: each token${parts.length ? `, with the ${parts.join(" and ")} that it is part of,` : ""} adds to the score (logit) of each label. The parts below and the label's own bias sum to the score exactly.`
    : "The score (logit) of a label is exactly a sum over the last vectors of all tokens. But the vector of a token also holds what it took up from others: a part may belong to its neighbours.");
  const best = scene.labels.indexOf(scene.predictions[0].options[0].token);
  const controls = add(place, "div", { class: "controls" });
  const box = addFigure(place, { name: "What each token adds", caption: "Blue: for the label. Orange: against it." });
  const draw = (label) => {
    box.textContent = "";
    const adds = values[label], most = Math.max(...adds.map(Math.abs), 1e-9);
    const row = add(box, "p", { class: "passage", dir: "auto" });
    scene.main.tokens.forEach((token, n) => {
      if (scene.separator && n) row.append(scene.separator);
      const part = add(row, "span", { class: `token ${adds[n] < 0 ? "against" : "in-favour"}`, tabindex: 0, title: withSign(adds[n]) }, token);
      part.style.setProperty("--share", Math.abs(adds[n]) / most);
    });
    const order = adds.map((value, n) => ({ value, n })).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const rows = order.slice(0, 12).map(({ value, n }) => ({ name: scene.main.tokens[n], at: placeAmong(scene.main.tokens, n), value: Math.abs(value), text: withSign(value), style: value < 0 ? "against" : "in-favour" }));
    drawBars(box, rows, most);
    const others = order.slice(12).reduce((sum, { value }) => sum + value, 0);
    const rest = order.length > 12 ? `, the ${order.length - 12} others ${withSign(others)}` : "";
    add(box, "p", { class: "step" }, `all ${order.length} tokens ${withSign(adds.reduce((a, b) => a + b, 0))}${rest}; bias of ${quoted(scene.labels[label])} ${withSign(bias[label])} → score ${number(logits[label])}`);
  };
  const options = scene.labels.map((name, n) => [String(n), visible(name)]);
  addChoice(controls, "label", options, String(best), (value) => draw(Number(value)));
  draw(best);
}
