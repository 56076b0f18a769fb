// The page: reads its data, and draws one chapter after the other.

const data = JSON.parse(document.getElementById("data").textContent);

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
  return `${scene.model}: ${shape}${tokens.length} tokens. Every number on this page is the model's own. ${scene.notes.map((note) => `Note: ${note}.`).join(" ")}`;
}

const scene = sceneOf(data);
const main = document.getElementById("main");
state.token = scene.main.tokens.length - 1;
fromAddress({
  token: scene.main.tokens.length - 1,
  layer: (scene.main.layers?.length ?? 1) - 1,
  head: (scene.main.layers?.[0].query.shape[0] ?? 1) - 1,
  key: scene.main.tokens.length - 1,
  temperature: 2, topK: 50, topP: 1,
});
document.title = short(scene.text, 60);
document.getElementById("title").textContent = scene.text;
document.getElementById("about").textContent = aboutScene(scene);
addThemeButton(document.getElementById("top"));
const nav = document.getElementById("nav");
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
