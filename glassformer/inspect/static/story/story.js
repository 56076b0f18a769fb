// The page: reads its data, and draws one chapter after the other. With a model of its own, it draws
// them again whenever the reader types or switches a head off.

const embedded = JSON.parse(document.getElementById("data").textContent);
const data = embedded.server ? await firstStory(embedded.server) : embedded;

// The data with its arrays unpacked, large ones when they are first looked at.
function sceneOf(found) {
  for (const stream of found.streams) {
    for (const layer of [...stream.layers ?? [], ...stream.cross ?? []]) {
      layer.heads = (layer.query ?? layer.weights).shape[0];
      for (const name of ["query", "key", "value", "weights", "bias"]) if (layer[name]) unpackLater(layer, name);
    }
    const places = stream.picture?.places;
    if (places?.similar) unpackLater(places, "similar");
    if (stream.bias) unpackLater(stream, "bias");
  }
  for (const each of Object.values(found.distributions)) unpackLater(each, "logits");
  if (found.palette?.logprobs) unpackLater(found.palette, "logprobs");
  found.main = found.streams[found.streams.length - 1];
  found.lensTotals = found.lens_totals;
  if (found.embeddings) readEmbeddings(found.embeddings);
  if (found.residual) found.insides = carriedInsides(found);
  return found;
}

function readEmbeddings(found) {
  for (const name of ["vectors", "mean", "directions"]) unpackLater(found, name);
  const rows = new Map(found.carried.map((id, row) => [id, row])), names = new Map();
  found.shown.forEach((id, n) => names.set(id, found.names[n]));
  for (const [name, , id] of found.neighbours.flat()) names.set(id, name);
  found.nameOf = (id) => names.get(id) ?? "";
  found.vector = (id) => (rows.has(id) ? vectorAt(found.vectors.data, found.vectors.shape[1], rows.get(id)) : null);
}

function aboutScene(scene) {
  const { layers } = scene.main;
  const heads = [...new Set((layers ?? []).map(headsOf))].join(" or ");
  const shape = layers ? `${layers.length} layers of ${heads} heads; ` : "";
  const notes = scene.notes.map((note) => `Note: ${note}.`).join(" ");
  return `${scene.model}: ${shape}${scene.streams.map(countedTokens).join(" → ")}. Every number on this page is the model's own: point at one to see where it comes from. ${scene.absent ?? ""} ${notes}`;
}

const MOST_NAV_LAYERS = 12;
const main = document.getElementById("main"), nav = document.getElementById("nav");
const written = sceneOf(data); // by Python
let scene = written;
let showAgain = () => show(written); // for another address
const afterDrawing = [];

// With `isPatient`, chapters out of view are drawn afterwards, in tasks of their own: the page answers
// a letter before the next one is typed, which abandons what is not drawn by then.
function show(next, isPatient = false) {
  scene = next;
  followers.length = 0;
  waiting.length = 0;
  const { tokens, layers } = scene.main;
  const usual = scene.first_token ?? (scene.predicts === "whole" ? tokens.length - 1 : openingToken(scene));
  usualState.token = usual;
  if (state.token === null || state.token >= tokens.length) state.token = usual;
  if (state.key !== null && state.key >= Math.max(...scene.streams.map((each) => each.tokens.length))) state.key = null;
  if (layers) {
    state.layer = Math.min(state.layer, layers.length - 1);
    state.head = Math.min(state.head, headsOf(layers[state.layer]) - 1);
  }
  document.title = short(scene.text, 60);
  document.getElementById("title").textContent = short(scene.text, 240);
  document.getElementById("title").classList.toggle("long", scene.text.length > 100);
  document.getElementById("about").textContent = aboutScene(scene);
  scene.parts ??= written.parts;
  drawWhole(document.getElementById("whole"), scene);
  const place = globalThis.scrollY ?? 0, drawings = [], rooms = isPatient ? roomsOfChapters() : new Map();
  for (const old of main.querySelectorAll("section.chapter")) old.remove();
  nav.textContent = "";
  chapters.filter((chapter) => !chapter.isShown || chapter.isShown(scene)).forEach((chapter, n) => drawChapter(chapter, n, rooms.get(chapter.id), drawings));
  const end = add(nav, "span", { class: "nav-end" });
  drawNavLayers(end);
  addPresentButton(end);
  for (const act of afterDrawing) act();
  drawAfterwards(drawings);
  globalThis.scrollTo?.(0, place);
  markChapter();
}

// What the chapters have of the page: the height of each, and how far it is from the view.
function roomsOfChapters() {
  return new Map([...main.querySelectorAll("section.chapter")].map((section) => {
    const { top, bottom } = section.getBoundingClientRect(), body = section.querySelector(".chapter-body");
    return [section.id, { height: body.offsetHeight, away: Math.max(0, top - globalThis.innerHeight, -bottom) }];
  }));
}

// The nearest ones first; `drawings` are { away, draw }. A number that is kept may be in any of them.
function drawAfterwards(drawings) {
  drawings.sort((one, other) => one.away - other.away).forEach(({ draw }) => later(draw));
  if (!drawings.length || !looking.isLocked) return void lookAgain(true);
  later(() => { if (looking.isLocked) lookAgain(true); });
}

// An empty page: there is no story of what the reader asked for.
function showNothing(title) {
  followers.length = 0;
  waiting.length = 0;
  stopPlaying();
  closeSum();
  document.title = short(title, 60);
  document.getElementById("title").textContent = short(title, 240);
  document.getElementById("about").textContent = "";
  document.getElementById("whole").textContent = "";
  for (const old of main.querySelectorAll("section.chapter")) old.remove();
  nav.textContent = "";
}

// The token that is chosen first. What follows a whole translation is only its end: a word in it says
// more; of a caption, the one that looked at one place more than the others.
function openingToken({ focus, main }) {
  if (!main.memory || focus < main.tokens.length - 1) return focus;
  return sourceOf(scene).picture ? clearest(wordWeights(main, { layer: null, head: null })) : Math.ceil(focus / 3);
}

// A chapter has an id, a title, and a function that draws it; if it has an equation (parts of a line,
// see prose.js) and a note, or functions that return them, they stand below its title. With a room that
// is not in view, its drawing is added to `drawings`, and it keeps its height until then.
function drawChapter(chapter, number, room, drawings) {
  const section = add(main, "section", { id: chapter.id, class: "chapter", "aria-labelledby": `${chapter.id}-title` });
  const head = add(section, "header", { class: "chapter-head" });
  const title = add(head, "h2", { id: `${chapter.id}-title` });
  const fold = add(title, "button", { type: "button", class: "fold", "aria-controls": `${chapter.id}-body` });
  add(fold, "span", { class: "chapter-number" }, String(number + 1));
  fold.append(chapter.title);
  fold.addEventListener("click", () => setFolded(chapter.id, fold.getAttribute("aria-expanded") === "true"));
  drawEquation(head, chapter.equation);
  const body = add(section, "div", { id: `${chapter.id}-body`, class: "chapter-body" }), drawn = scene;
  let isDue = !room?.away;
  if (!isDue) {
    body.style.minHeight = `${room.height}px`;
    body.setAttribute("aria-busy", "true");
    drawings.push({ away: room.away, draw: () => {
      isDue = true;
      if (!body.hidden && !body.childNodes.length) drawBody(body, chapter, drawn);
      body.style.minHeight = "";
      body.removeAttribute("aria-busy");
    } });
  }
  follow(["folded", "present", "chapter"], () => {
    const isOpen = state.present ? state.chapter === chapter.id : !foldedChapters().includes(chapter.id);
    fold.setAttribute("aria-expanded", isOpen);
    body.hidden = !isOpen;
    section.classList.toggle("presented", isOpen);
    if (isOpen && isDue && !body.childNodes.length) drawBody(body, chapter, drawn);
  });
  const link = add(nav, "a", { href: `#chapter=${chapter.id}` }, chapter.title);
  link.addEventListener("click", (event) => { // the address holds the state
    event.preventDefault();
    goToChapter(chapter.id);
  });
}

// When it is first opened.
function drawBody(body, chapter, drawn) {
  const note = typeof chapter.note === "function" ? chapter.note(drawn) : chapter.note;
  if (note) add(body, "p", { class: "lead" }, note);
  chapter.draw(body, drawn);
  completeFigures(body);
}

const foldedChapters = () => state.folded.split(",").filter(Boolean);

function setFolded(id, isFolded) {
  const others = foldedChapters().filter((each) => each !== id);
  choose({ folded: [...others, ...(isFolded ? [id] : [])].join(",") });
}

// The layers, for a change in any chapter.
function drawNavLayers(parent) {
  const { layers } = scene.main;
  if (!layers || layers.length < 2 || layers.length > MOST_NAV_LAYERS) return;
  const group = add(parent, "span", { class: "nav-layers", role: "group", "aria-label": "layer" });
  add(group, "span", { "aria-hidden": "true" }, "layer");
  const buttons = layers.map((each, layer) => {
    const button = add(group, "button", { type: "button", "aria-label": `layer ${layer}` }, String(layer));
    button.addEventListener("click", () => choose({ layer, head: Math.min(state.head, headsOf(each) - 1) }));
    return button;
  });
  follow(["layer"], () => buttons.forEach((button, layer) => button.setAttribute("aria-pressed", layer === state.layer)));
}

// One that is a function may depend on whose attention is shown.
function drawEquation(head, equation) {
  const parts = () => (typeof equation === "function" ? equation(scene) : equation);
  if (!parts()) return;
  const line = add(head, "p", { class: "equation" });
  follow(["look"], () => writeProse(line, parts()));
}

// It stays in view while chapters above it are computed, until the reader does something.
let aim = null;

function goToChapter(id) {
  const section = chapters.some((chapter) => chapter.id === id) ? document.getElementById(id) : null;
  if (!section) return;
  if (state.present) choose({ chapter: id });
  else setFolded(id, false);
  section.scrollIntoView();
  section.querySelector("h2").setAttribute("tabindex", -1);
  section.querySelector("h2").focus({ preventScroll: true });
  aim = id;
}

function keepAim() {
  new ResizeObserver(() => {
    document.documentElement.style.scrollPaddingTop = `${nav.offsetHeight}px`;
    if (aim !== null) document.getElementById(aim)?.scrollIntoView();
  }).observe(main);
  for (const act of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(act, () => { aim = null; }, { passive: true, capture: true });
}

// Marks the chapter in view in the navigation and in the address.
function markChapter() {
  if (state.present) return;
  const sections = [...main.querySelectorAll("section.chapter")];
  const top = nav.getBoundingClientRect().bottom + 80;
  const current = sections.filter((each) => each.getBoundingClientRect().top <= top).at(-1) ?? null;
  sections.forEach((section, n) => {
    const link = nav.children[n];
    if (section === current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    if (section === current && nav.scrollWidth > nav.clientWidth) nav.scrollLeft = link.offsetLeft - 40;
  });
  if (globalThis.scrollY > 0 || state.chapter !== null) choose({ chapter: current?.id ?? null });
}

// --- the model in the page ---

async function comeAlive() {
  const place = document.getElementById("live");
  const stamp = add(place, "p", { class: "stamp" }, "Unpacking the model …");
  const model = await makeLive(data.live);
  const { difference, dtype } = agreement(model), described = data.live.streams.at(-1);
  stamp.textContent = `This page runs the model itself: its logits agree with Python's to ${number(difference)} (weights as ${dtype}).`;
  let known = null;
  const ids = written.streams.map((each) => each.ids), traced = () => (known ??= model.trace(...ids));
  written.projection = makeProjection(model, described, traced);
  Object.assign(written, livePredictions(model, data.live, ids, [], traced));
  if (written.residual) written.insides = liveInsides(written, model, data.live, traced);
  const line = add(place, "label", { class: "ask" }, "Try another text ");
  // Not an <input>, which would drop the line breaks of a text.
  const input = add(line, "textarea", { rows: 1, spellcheck: "false", dir: "auto" });
  input.value = written.text;
  const asWritten = input.value; // with line breaks as the browser keeps them
  const translation = written.streams.length > 1 ? add(place, "p", { class: "translation", dir: "auto", "aria-live": "polite" }) : null;
  const said = add(place, "p", { class: "said warning", "aria-live": "polite" });
  const draw = (isPatient = false) => {
    if (input.value !== (state.text ?? asWritten)) input.value = state.text ?? asWritten;
    const silent = possibleHeads(written);
    let next;
    try {
      next = state.text === null && !silent.length ? written : liveScene(model, data.live, state.text ?? written.text, silent, written);
    } catch (error) {
      said.textContent = `This text cannot be shown: ${error.message}. The page shows the last text that could be read.`;
      show(scene); // the last text stays, with a token of its own
      return;
    }
    next.switchHead = (layer, head, group) => {
      const others = silent.filter(([l, h, g]) => l !== layer || h !== head || g !== group);
      choose({ off: asOff(others.length === silent.length ? [...others, [layer, head, group]] : others) });
    };
    const off = silent.map(([layer, head, group]) => `head ${head} of layer ${layer}${group ? ` (${group})` : ""}`).join(", ");
    said.textContent = off && `Switched off: ${off}.`;
    if (translation) translation.textContent = readerOf(data.live, data.live.streams.at(-1)).decode(next.translated ?? next.main.ids).trim() || "(nothing)";
    show(next, isPatient);
  };
  input.addEventListener("input", () => {
    Object.assign(state, { token: null, key: null, step: null });
    choose({ text: input.value === asWritten ? null : input.value });
  });
  watch(["text", "off"], () => draw(true));
  showAgain = () => draw();
  draw();
}

function possibleHeads(scene) {
  const looks = looksOf(scene);
  return headsOff().filter(([layer, head, group]) => {
    const look = looks.find(({ name }, n) => (group === undefined ? n === 0 : n > 0 && name === group));
    return look && layer < look.layers.length && head < headsOf(look.layers[layer]);
  });
}

// --- the address ---

// A text that was typed may have more tokens than the page's own.
function readAddress(address) {
  const { layers } = scene.main, lengths = scene.streams.map(({ tokens }) => tokens.length);
  const last = (state.text === null ? Math.max(...lengths) : MOST_TYPED) - 1;
  fromAddress({
    token: state.text === null ? lengths.at(-1) - 1 : last, key: last, layer: (layers?.length ?? 1) - 1, head: Math.max(1, ...(layers ?? []).map(headsOf)) - 1,
    option: 10, unit: 1e8, look: 2, source: lengths[0] - 1, temperature: 2, topK: 50, topP: 1, step: 1000,
    without: 0, shuffle: 9999, beams: 8, draws: MOST_DRAWS, cached: last, chapter: 0, folded: 0, present: 1, ...pictureLimits(scene),
  }, address);
}

const isLive = Boolean(data.live);
const opened = globalThis.location?.hash || (data.address ? `#${new URLSearchParams(data.address)}` : "");
if (isLive) fromAddress({ text: 0, off: 0 }, opened);
addThemeButton(document.getElementById("top"));
addPresentation();
if (embedded.server) showStories((found) => show(sceneOf(found)), (part) => show({ ...scene, ...part }), showNothing);
listenForLooks(main);
readAddress(opened);
if (new URLSearchParams(globalThis.location?.search).has("present")) state.present = 1;
const asked = { ...state };
show(written);
const goToAsked = () => { if (asked.chapter !== null) goToChapter(asked.chapter); };
if (isLive) {
  comeAlive().then(() => {
    const isPlace = (n) => n === null || n < scene.main.tokens.length;
    if (asked.text !== null && asked.token !== null && isPlace(asked.token)) choose({ token: asked.token, key: isPlace(asked.key) ? asked.key : null });
    goToAsked();
  }).catch((error) => {
    add(document.getElementById("live"), "p", { class: "stamp" }, `The model does not run in this browser: ${error.message}.`);
  });
}
goToAsked();
keepAim();
globalThis.addEventListener("scroll", markChapter, { passive: true });
globalThis.addEventListener("hashchange", () => {
  Object.assign(state, usualState, { token: null });
  if (isLive) fromAddress({ text: 0, off: 0 });
  readAddress(location.hash);
  const target = state.chapter;
  showAgain();
  if (target !== null) goToChapter(target);
});
