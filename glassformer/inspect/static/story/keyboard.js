// Many things, one stop of the Tab key: arrow keys move among them.

// `items` stand in rows of `columns`. `start` is where the Tab key enters.
function rove(box, items, columns = items.length, start = 0) {
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
    const at = moved(event.key, items.indexOf(event.target), columns, items.length);
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

// Enter and the space bar do what a click does, for what is not a button of its own.
function pressable(element, act) {
  element.addEventListener("click", act);
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act(event);
  });
}
