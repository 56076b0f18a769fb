// Sentences that share the state with the pictures: a number or a token in them follows what is
// chosen, and choosing another one there changes the pictures.

// Writes parts into a paragraph: texts, terms (see sources.js), and picks.
function writeProse(line, parts) {
  line.textContent = "";
  for (const part of parts) {
    if (typeof part === "string") line.append(part);
    else if (part.pick) addPick(line, part);
    else addShown(line, part);
  }
}

// A number in a sentence; pointing at it shows where it comes from.
function addShown(line, { text, kind = "", of = null }) {
  const shown = add(line, "span", { class: `shown ${kind && `of-${kind}`}` }, text);
  if (of === null) return;
  shown.setAttribute("data-of", of);
  shown.setAttribute("tabindex", 0);
  shown.setAttribute("role", "button");
  shown.setAttribute("aria-label", `${text}: where it comes from`);
}

// A choice within a sentence. `options` are [value, text]; `chosen` is the value shown.
function addPick(line, { pick, label, options, chosen, kind = "" }) {
  const select = add(line, "select", { class: `pick ${kind && `of-${kind}`}`, "aria-label": label });
  for (const [value, text] of options) add(select, "option", { value }, text);
  select.value = String(chosen);
  select.addEventListener("input", () => choose({ [pick]: Number(select.value), ...alsoChosen(pick, Number(select.value)) }));
}

// What another token or layer changes as well: layers may have different numbers of heads.
function alsoChosen(pick, value) {
  if (pick === "token") return { key: null };
  const layer = pick === "layer" ? lookOf(scene).layers?.[value] : null;
  return layer ? { head: Math.min(state.head, headsOf(layer) - 1) } : {};
}

const countingOptions = (count) => Array.from({ length: count }, (_, n) => [n, String(n)]);

const layerPick = (stream) => ({ pick: "layer", label: "layer", options: countingOptions(stream.layers.length), chosen: layerOf(stream) });
const headPick = (stream) => ({ pick: "head", label: "head", options: countingOptions(headsOf(stream.layers[layerOf(stream)])), chosen: state.head });

// Tokens around the chosen one: a list of five hundred would be no choice.
function tokenPick(stream, pick, chosen, label, kind) {
  const [first, last] = windowAround(chosen, stream.tokens.length, 100);
  const named = (n) => short(visible(stream.tokens[n]), 16); // those of a picture are numbered already
  const options = Array.from({ length: last - first }, (_, n) => [first + n, stream.picture ? named(first + n) : `${first + n} ${named(first + n)}`]);
  return { pick, label, options, chosen, kind };
}
