// Many things, one stop of the Tab key: arrow keys move among them.

// `items` stand in rows of `columns`, or `lead(key, at)` is where a key leads from one of them. `start`
// is where the Tab key enters.
function rove(box, items, columns = items.length, start = 0, lead = (key, at) => moved(key, at, columns, items.length)) {
  const enter = (at) => items.forEach((item, n) => item.setAttribute("tabindex", n === at ? 0 : -1));
  if (!items.length) return;
  enter(start);
  let current = start;
  box.addEventListener("focusin", ({ target }) => {
    const at = items.indexOf(target);
    if (at < 0 || at === current) return;
    items[current]?.setAttribute("tabindex", -1);
    target.setAttribute("tabindex", 0);
    current = at;
  });
  box.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !items.includes(event.target)) return;
    const at = lead(event.key, items.indexOf(event.target));
    if (at === null) return;
    event.preventDefault();
    items[at].focus();
  });
}

// Where a key leads from a place; null: the key means nothing here.
function moved(key, at, columns, count) {
  const row = Math.floor(at / columns);
  const found = {
    ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns, ArrowUp: at - columns,
    Home: row * columns, End: Math.min(count, (row + 1) * columns) - 1,
  }[key];
  return found === undefined ? null : found >= 0 && found < count ? found : at;
}

// The same for items anywhere on the page: the next one as the arrow points. To the side, that is the
// nearest one; up and down, it stands above or below.
function pointed(key, at, items) {
  if (key === "Home") return 0;
  if (key === "End") return items.length - 1;
  const [across, along] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key] ?? [0, 0];
  if (!across && !along) return null;
  const from = items[at].getBoundingClientRect();
  let best = at, least = Infinity;
  items.forEach((item, n) => {
    const to = item.getBoundingClientRect();
    const right = across > 0 ? to.left - from.right : from.left - to.right, down = along > 0 ? to.top - from.bottom : from.top - to.bottom;
    const isBeside = to.left < from.right && to.right > from.left;
    if (across ? right < -4 : down < -4 || !isBeside) return;
    const far = across ? 2 * right + Math.abs((to.top + to.bottom - from.top - from.bottom) / 2) : down;
    if (n !== at && far < least) [best, least] = [n, far];
  });
  return best;
}

// Enter and the space bar do what a click does, for what is not a button of its own.
function pressable(element, act) {
  element.addEventListener("click", act);
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act(event);
  });
}
