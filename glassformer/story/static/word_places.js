// The page of one image: its picture, and a choice of the layer and the head.

const data = JSON.parse(document.getElementById("data").textContent);
const { scene } = data;
const wanted = { layer: data.chosen[0], head: data.chosen[1] };

// The mean over the chosen layer and head, or over all of them.
function chosenWeights() {
  const isChosen = (number, one) => one === null || number === one;
  const picked = scene.heads
    .filter((_, layer) => isChosen(layer, wanted.layer))
    .flatMap((heads) => heads.filter((_, head) => isChosen(head, wanted.head)));
  return picked[0].map((grid, word) => grid.map((row, r) => row.map((_, c) => {
    return picked.reduce((sum, each) => sum + each[word][r][c], 0) / picked.length;
  })));
}

document.title = data.title;
document.getElementById("title").textContent = data.title;
document.getElementById("about").textContent = data.about;
addThemeButton(document.getElementById("top"));
const picture = drawScene(document.getElementById("scene"), scene);
const layers = [["layer", "Layer", scene.heads?.length], ["head", "Head", scene.heads?.[0].length]];
for (const [name, label, count] of layers) {
  if (!(count > 1)) continue;
  const options = [["", "mean of all"], ...Array.from({ length: count }, (_, n) => [String(n), `${name} ${n}`])];
  const given = wanted[name] === null ? "" : String(wanted[name]);
  addChoice(document.getElementById("controls"), label, options, given, (value) => {
    wanted[name] = value === "" ? null : Number(value);
    picture.use(chosenWeights());
  });
}
