// An image beside itself: dimmed, with the weights of the model's attention over it.

const data = JSON.parse(document.getElementById("data").textContent);
const [height, width] = data.size;
const scale = Math.min(420 / width, 420 / height);
const byId = (id) => document.getElementById(id);

document.title = data.title;
byId("title").textContent = data.title;
addThemeButton(byId("top"));

function picture(svg, opacity) {
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width * scale);
  svg.setAttribute("height", height * scale);
  const size = { width, height, preserveAspectRatio: "none" };
  const sharp = Math.max(width, height) <= 128 ? "sharp" : "";
  return add(svg, "image", { href: data.source, ...size, class: sharp, opacity });
}

picture(byId("plain"), 1);
const map = byId("map");
add(map, "rect", { width, height, fill: "#000" });
const dimmed = picture(map, 0.5);
dimmed.setAttribute("style", "filter: grayscale(1)");
const cells = add(map, "g");
let strength = 0.8;
let weights = data.weights;

// From 0, which leaves the picture as it is, to the largest weight.
const colourOver = (share) => `rgb(${heatColour(share).join(" ")} / ${(strength * share ** 0.6).toFixed(3)})`;

function show() {
  const [rows, columns] = [weights.length, weights[0].length];
  const largest = Math.max(...weights.flat());
  byId("largest").textContent = percent(largest);
  byId("scale").style.backgroundImage = `linear-gradient(to right, ${Array.from({ length: 17 }, (_, n) => colourOver(n / 16)).join(", ")})`;
  cells.replaceChildren();
  weights.forEach((line, row) => line.forEach((value, column) => {
    const cell = add(cells, "rect", {
      class: `cell${value === largest ? " peak" : ""}`,
      x: (column * width) / columns, y: (row * height) / rows,
      width: width / columns, height: height / rows,
      fill: colourOver(value / largest),
    });
    const says = () => (byId("said").textContent = `row ${row}, column ${column}: ${percent(value)}`);
    cell.addEventListener("pointerenter", says);
    if (value === largest) says();
  }));
  const table = byId("table");
  table.replaceChildren();
  for (const line of weights) {
    const row = add(table, "tr");
    for (const value of line) add(row, "td", {}, percent(value));
  }
}

// The mean of layers on grids of different sizes, on the finest one: the first layer's.
function mean(layers, head) {
  const [rows, columns] = [layers[0][0].length, layers[0][0][0].length];
  const sum = Array.from({ length: rows }, () => new Array(columns).fill(0));
  for (const heads of layers) {
    const chosen = head === null ? heads : [heads[head]];
    const down = Math.ceil(rows / chosen[0].length);
    const right = Math.ceil(columns / chosen[0][0].length);
    const part = 1 / (layers.length * chosen.length);
    for (let row = 0; row < rows; row += 1) {
      const covered = Math.min(down, rows - Math.floor(row / down) * down);
      for (let column = 0; column < columns; column += 1) {
        const wide = Math.min(right, columns - Math.floor(column / right) * right);
        for (const one of chosen) {
          const value = one[Math.floor(row / down)][Math.floor(column / right)];
          sum[row][column] += (part * value) / (covered * wide);
        }
      }
    }
  }
  return sum;
}

let { layer, head } = data;
function about() {
  if (!data.heads) return data.about;
  const most = Math.max(...data.heads.map((heads) => heads.length));
  const chosen = [["layer", layer, data.heads.length], ["head", head, most]]
    .filter(([, , count]) => count > 1) // nothing about the only one
    .map(([name, one]) => (one === null ? `mean of all ${name}s` : `${name} ${one}`));
  return [data.model, "attention", ...chosen].join(", ");
}

function choose() {
  const layers = layer === null ? data.heads : [data.heads[layer]];
  const most = Math.min(...layers.map((heads) => heads.length));
  if (head !== null && head >= most) head = null;
  weights = mean(layers, head);
  byId("about").textContent = about();
  show();
  return most;
}

const controls = byId("controls");
if (data.heads) {
  const numbered = (count) => [["", "mean of all"], ...Array.from({ length: count }, (_, n) => [String(n), String(n)])];
  const parsed = (value) => (value === "" ? null : Number(value));
  let ofHead = null;
  const heads = () => {
    const most = choose();
    ofHead?.parentElement.remove();
    const chosen = head === null ? "" : String(head);
    ofHead = addChoice(controls, "Head", numbered(most), chosen, (value) => { head = parsed(value); choose(); });
  };
  const chosen = layer === null ? "" : String(layer);
  addChoice(controls, "Layer", numbered(data.heads.length), chosen, (value) => { layer = parsed(value); heads(); });
  heads();
} else {
  byId("about").textContent = about();
  show();
}
addControl(controls, "Colour", { type: "range", min: 0, max: 1, step: 0.05, value: strength }, (input) => {
  strength = Number(input.value);
  show();
});
