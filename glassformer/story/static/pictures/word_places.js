// An image with the words of its caption. A word darkens the places that it did not look at; a place
// colours the words that looked there.

const WIDEST_SCENE = 560, DARKEST = 0.85;

function drawScene(parent, scene) {
  const place = add(parent, "div", { class: "scene" });
  const line = add(place, "div", { class: "words", role: "group", "aria-label": "words" });
  const said = add(place, "p", { class: "said", dir: "auto" });
  const [height, width] = scene.size, [rows, columns] = scene.grid;
  const scale = WIDEST_SCENE / Math.max(height, width);
  const [high, wide] = [Math.round(height * scale), Math.round(width * scale)];
  const svg = add(place, "svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}` });
  add(svg, "image", { href: scene.image, width: wide, height: high, preserveAspectRatio: "none" });
  let weights = scene.weights;
  const state = { word: null, place: null }; // what is kept
  const cells = [], words = [];

  function showWord(number) {
    const grid = weights[number].flat(), most = Math.max(...grid, 1e-9);
    const peak = grid.indexOf(Math.max(...grid));
    cells.forEach((cell, each) => {
      cell.setAttribute("fill-opacity", (DARKEST * (1 - grid[each] / most)).toFixed(3));
      cell.classList.toggle("chosen", each === peak);
    });
    words.forEach(({ button, fill }, each) => {
      button.classList.toggle("chosen", each === number);
      fill.style.opacity = 0;
    });
    const [row, column] = [Math.floor(peak / columns), peak % columns];
    said.textContent = `${isolated(scene.words[number])} looked most at row ${row + 1}, column ${column + 1}: ${percent(grid[peak])}`;
  }

  function showPlace(chosen) {
    const [row, column] = [Math.floor(chosen / columns), chosen % columns];
    const shares = weights.map((grid) => grid[row][column]);
    const most = Math.max(...shares, 1e-9);
    cells.forEach((cell, each) => {
      cell.setAttribute("fill-opacity", each === chosen ? 0 : 0.25);
      cell.classList.toggle("chosen", each === chosen);
    });
    words.forEach(({ button, fill }, each) => {
      button.classList.toggle("chosen", false);
      fill.style.opacity = 0.8 * (shares[each] / most);
    });
    const best = shares.indexOf(Math.max(...shares));
    said.textContent = `row ${row + 1}, column ${column + 1}: looked at most by ${isolated(scene.words[best])}, ${percent(shares[best])}`;
  }

  function showNothing() {
    cells.forEach((cell) => {
      cell.setAttribute("fill-opacity", 0);
      cell.classList.toggle("chosen", false);
    });
    words.forEach(({ button, fill }) => {
      button.classList.toggle("chosen", false);
      fill.style.opacity = 0;
    });
    said.textContent = scene.name;
  }

  const showKept = () => {
    if (state.word !== null) showWord(state.word);
    else if (state.place !== null) showPlace(state.place);
    else showNothing();
  };
  const keep = (word, chosen) => {
    Object.assign(state, { word, place: chosen });
    showKept();
  };

  scene.words.forEach((label, number) => {
    const button = add(line, "button", { type: "button", class: "word", dir: "auto" });
    const fill = add(button, "span", { class: "share-of" });
    add(button, "span", {}, short(label));
    button.addEventListener("pointerenter", () => showWord(number));
    button.addEventListener("pointerleave", showKept);
    button.addEventListener("focus", () => keep(number, null));
    button.addEventListener("click", () => keep(number, null));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const goal = words[number + step];
      if (goal === undefined) return;
      event.preventDefault();
      goal.button.focus();
    });
    words.push({ button, fill });
  });
  for (let number = 0; number < rows * columns; number += 1) {
    const [row, column] = [Math.floor(number / columns), number % columns];
    const cell = add(svg, "rect", {
      class: "place", x: (column * wide) / columns, y: (row * high) / rows,
      width: wide / columns, height: high / rows, "fill-opacity": 0,
    });
    cell.addEventListener("pointerenter", () => showPlace(number));
    cell.addEventListener("pointerleave", showKept);
    cell.addEventListener("click", () => keep(null, number));
    cells.push(cell);
  }
  showNothing();
  return {
    use: (others) => {
      weights = others;
      showKept();
    },
  };
}
