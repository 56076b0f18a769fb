// The page: reads its data, and draws one chapter after the other. With a model of its own, it draws
// them again whenever the reader types or switches a head off.

const embedded = JSON.parse(document.getElementById("data").textContent);
const data = embedded.server ? await firstStory(embedded.server) : embedded;

// The data with its arrays unpacked.
function sceneOf(found) {
  for (const stream of found.streams) {
    for (const layer of stream.layers ?? []) {
      for (const name of ["query", "key", "value"]) layer[name] = unpacked(layer[name]);
    }
    for (const layer of stream.cross ?? []) layer.weights = unpacked(layer.weights);
    if (stream.bias) stream.bias = unpacked(stream.bias);
  }
  found.distribution.logits = unpacked(found.distribution.logits);
  found.main = found.streams[found.streams.length - 1];
  return found;
}

function aboutScene(scene) {
  const { layers, tokens } = scene.main;
  const shape = layers ? `${layers.length} layers of ${layers[0].query.shape[0]} heads; ` : "";
  const notes = scene.notes.map((note) => `Note: ${note}.`).join(" ");
  return `${scene.model}: ${shape}${tokens.length} tokens. Every number on this page is the model's own. ${notes}`;
}

const main = document.getElementById("main"), nav = document.getElementById("nav");
const written = sceneOf(data); // by Python
let scene = written;

function show(next) {
  scene = next;
  followers.length = 0;
  waiting.length = 0;
  const { tokens, layers } = scene.main;
  const usual = scene.predicts === "whole" ? tokens.length - 1 : scene.focus;
  if (state.token === null || state.token >= tokens.length) state.token = usual;
  if (state.key !== null && state.key >= tokens.length) state.key = null;
  if (layers) state.layer = Math.min(state.layer, layers.length - 1);
  document.title = short(scene.text, 60);
  document.getElementById("title").textContent = short(scene.text, 240);
  document.getElementById("about").textContent = aboutScene(scene);
  const place = globalThis.scrollY ?? 0;
  for (const old of main.querySelectorAll("section.chapter")) old.remove();
  nav.textContent = "";
  for (const chapter of chapters) {
    if (chapter.isShown && !chapter.isShown(scene)) continue;
    const section = add(main, "section", { id: chapter.id, class: "chapter" });
    add(section, "h2", {}, chapter.title);
    if (chapter.note) add(section, "p", { class: "hint" }, chapter.note);
    chapter.draw(section, scene);
    const link = add(nav, "a", { href: `#${chapter.id}` }, chapter.title);
    link.addEventListener("click", (event) => { // the address holds the state
      event.preventDefault();
      section.scrollIntoView();
    });
  }
  globalThis.scrollTo?.(0, place);
}

// --- the model in the page ---

let silentHeads = [];

async function comeAlive() {
  const stamp = add(document.getElementById("live"), "p", { class: "stamp" }, "Unpacking the model …");
  const model = await makeLive(data.live);
  const { difference, dtype } = agreement(model);
  stamp.textContent = `This page runs the model itself: its logits agree with Python's to ${number(difference)} (weights as ${dtype}).`;
  const line = add(document.getElementById("live"), "label", { class: "ask" }, "Try another text ");
  // Not an <input>, which would drop the line breaks of a text.
  const input = add(line, "textarea", { rows: 1, spellcheck: "false", dir: "auto" });
  input.value = written.text;
  const asWritten = input.value; // with line breaks as the browser keeps them
  const said = add(document.getElementById("live"), "p", { class: "said warning", "aria-live": "polite" });
  const draw = () => {
    try {
      const isWritten = input.value === asWritten && !silentHeads.length;
      const next = isWritten ? written : liveScene(model, data.live, input.value, silentHeads, written);
      next.switchHead = (layer, head) => {
        const others = silentHeads.filter(([l, h]) => l !== layer || h !== head);
        silentHeads = others.length === silentHeads.length ? [...others, [layer, head]] : others;
        draw();
      };
      const off = silentHeads.map(([layer, head]) => `head ${head} of layer ${layer}`).join(", ");
      said.textContent = off && `Switched off: ${off}.`;
      show(next);
    } catch (error) {
      said.textContent = `This text cannot be shown: ${error.message}.`;
    }
  };
  input.addEventListener("input", () => {
    Object.assign(state, { token: null, key: null });
    draw();
  });
  draw();
}

fromAddress({
  token: scene.main.tokens.length - 1,
  layer: (scene.main.layers?.length ?? 1) - 1,
  head: (scene.main.layers?.[0].query.shape[0] ?? 1) - 1,
  key: scene.main.tokens.length - 1,
  temperature: 2, topK: 50, topP: 1,
});
addThemeButton(document.getElementById("top"));
if (embedded.server) showStories((found) => show(sceneOf(found)), (part) => show({ ...scene, ...part }));
show(written);
if (data.live && written.streams.length === 1) {
  comeAlive().catch((error) => {
    add(document.getElementById("live"), "p", { class: "stamp" }, `The model does not run in this browser: ${error.message}.`);
  });
}
