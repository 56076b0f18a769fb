// Translation: which words of the source each word of the output looked at.

chapters.push({
  id: "alignment",
  title: "Looking at the source",
  note: "Each token of the translation attends to the source as well. Rows: the token that was read last when the next one was written; columns: the source.",
  isShown: (scene) => Boolean(scene.main.cross),
  draw(place, scene) {
    const source = scene.streams.find(({ name }) => name === scene.main.memory);
    const controls = add(place, "div", { class: "controls" });
    const heads = (scene.main.cross[0].query ?? scene.main.cross[0].weights).shape[0];
    const chosen = { layer: 0, head: 0 };
    const room = add(place, "div", { class: "scroll" });
    const draw = () => {
      room.textContent = "";
      const svg = add(room, "svg");
      const rows = crossWeightsOf(scene.main, chosen.layer, chosen.head);
      drawHeatMap(svg, scene.main.tokens.map(visible), source.tokens.map(visible), rows, { rows: "translation", columns: "source" });
    };
    const numbers = (count) => Array.from({ length: count }, (_, n) => [String(n), String(n)]);
    if (scene.main.cross.length > 1) addChoice(controls, "layer", numbers(scene.main.cross.length), "0", (value) => { chosen.layer = Number(value); draw(); });
    if (heads > 1) addChoice(controls, "head", numbers(heads), "0", (value) => { chosen.head = Number(value); draw(); });
    draw();
  },
});
