// Figures: a picture, its caption, its numbers for those who do not see it, and a button that saves it.

// Returns the box for the picture. `of` names the parts of the state that the picture depends on, for
// its origin: "layer", "head", "token", "key".
function addFigure(parent, { name, caption = "", of = [], style = "" }) {
  const figure = add(parent, "figure", { class: style, "data-name": name, "data-state": of.join(" ") });
  const box = add(figure, "div", { class: "drawn" });
  const line = add(figure, "figcaption", {}, caption);
  line.hidden = !caption;
  addSaveButton(figure);
  return box;
}

function setCaption(box, text) {
  const line = box.closest("figure").querySelector("figcaption");
  line.textContent = text;
  line.hidden = !text;
}

// A text in place of a picture, for those who hear the page.
function describe(box, text) {
  const figure = box.closest("figure");
  const words = figure.querySelector(".spoken") ?? add(figure, "p", { class: "spoken" });
  words.textContent = text;
}

function addSaveButton(figure) {
  const name = figure.getAttribute("data-name") ?? figure.querySelector("figcaption")?.textContent ?? "picture";
  const button = add(figure, "button", { type: "button", class: "save", "aria-label": `Save as SVG: ${short(name, 60)}`, title: "Save as SVG" }, "SVG ↓");
  button.addEventListener("click", () => saveFigure(figure));
}

// Chapters may draw figures without a button: each gets one.
function completeFigures(section) {
  for (const figure of section.querySelectorAll("figure")) {
    if (!figure.querySelector(".save")) addSaveButton(figure);
  }
}

// Where a picture comes from: model, text, and what was chosen.
function originOf(figure) {
  const parts = (figure.getAttribute("data-state") ?? "").split(" "), look = lookOf(scene);
  const isOfLook = parts.includes("look"), at = isOfLook ? askingOf(look) : state.token;
  const said = {
    layer: () => `layer ${state.layer}`,
    head: () => `head ${state.head}`,
    token: () => `token ${quoted((isOfLook ? look.asking : scene.main.tokens)[at])} at ${at}`,
    key: () => `key ${look.tokens[state.key] === undefined ? "with the largest weight" : quoted(look.tokens[state.key])}`,
  };
  const names = parts.filter((name) => said[name]);
  const off = headsOff().map(([layer, head]) => `head ${head} of layer ${layer}`);
  return [
    scene.model, `“\u2068${short(visible(scene.text), 80)}\u2069”`, ...names.map((name) => said[name]()),
    ...(off.length ? [`without ${off.join(", ")}`] : []), `glassformer ${scene.version}`,
  ].join(" · ");
}

function fileNameOf(figure) {
  const words = `${scene.model} ${figure.getAttribute("data-name") ?? "picture"}`.toLowerCase();
  return `${words.replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60)}.svg`;
}

function saveFigure(figure) {
  const file = new Blob([svgOf(figure)], { type: "image/svg+xml" });
  const link = document.createElement("a");
  Object.assign(link, { href: URL.createObjectURL(file), download: fileNameOf(figure) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// --- paper ---

const PAPER = 680; // pixels that fit side by side on a sheet of A4

// What is scrolled on the screen is made smaller on paper, so that nothing is cut off.
function fitToPaper() {
  for (const svg of document.querySelectorAll("svg[width][height]:not([viewBox])")) {
    svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
  }
  for (const box of document.querySelectorAll(".scroll")) {
    box.style.setProperty("--fit", Math.min(1, PAPER / Math.max(1, box.scrollWidth)));
  }
}
globalThis.addEventListener?.("beforeprint", fitToPaper);

// --- long texts ---

// The part of `count` things around one of them: [first, after the last].
function windowAround(at, count, size) {
  const first = Math.max(0, Math.min(count - size, Math.round(at - size / 2)));
  return [first, Math.min(count, first + size)];
}
