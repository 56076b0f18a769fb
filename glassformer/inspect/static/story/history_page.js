// The page of a history alone: the tokens, and the chapter on how the model learned.

const data = JSON.parse(document.getElementById("data").textContent);
const scene = { ...data, main: data.streams[data.streams.length - 1], focus: data.history.focus };
const main = document.getElementById("main");

state.token = scene.predicts === "whole" ? scene.main.tokens.length - 1 : scene.focus;
const { own, source } = data.history.maps, opened = source ?? own;
if (opened) {
  state.layer = opened.layers[opened.opens[0]];
  state.head = opened.heads[opened.opens[1]];
}
fromAddress({
  token: scene.main.tokens.length - 1,
  layer: Math.max(0, ...(opened?.layers ?? [])),
  head: Math.max(0, ...(opened?.heads ?? [])),
});

document.title = short(scene.text, 60);
document.getElementById("title").textContent = short(scene.text, 240);
const notes = scene.notes.map((note) => ` Note: ${note}.`).join("");
document.getElementById("about").textContent = `${scene.model} at ${scene.history.steps.length} steps of its training. Every number on this page is the model's own.${notes}`;
addThemeButton(document.getElementById("top"));
for (const chapter of chapters) {
  if (chapter.isShown && !chapter.isShown(scene)) continue;
  const section = add(main, "section", { id: chapter.id, class: "chapter" });
  add(section, "h2", {}, chapter.title);
  if (chapter.note) add(section, "p", { class: "hint" }, chapter.note);
  chapter.draw(section, scene);
}
