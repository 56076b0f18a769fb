// Precision, recall, F1 and support of each class as bars; a heading sorts by its column.

const SCORES = ["precision", "recall", "f1", "support"];

pictures.classes = (place, data) => {
  const state = (data.state ??= { by: "f1", isFalling: false });
  const largest = Math.max(1, ...data.classes.map(({ support }) => support));
  const box = add(place, "div", { class: "scroll tall", tabindex: 0 });
  const table = add(box, "table", { class: "classes" });
  const head = add(add(table, "thead"), "tr");
  for (const name of ["label", ...SCORES]) {
    const order = state.by === name ? (state.isFalling ? "descending" : "ascending") : "none";
    const cell = add(head, "th", { scope: "col", "aria-sort": order });
    const sign = { descending: " ↓", ascending: " ↑", none: "" }[order];
    const text = { label: "class", f1: "F1" }[name] ?? name;
    const button = add(cell, "button", { type: "button" }, text + sign);
    button.addEventListener("click", () => {
      state.isFalling = state.by === name && !state.isFalling;
      state.by = name;
      place.textContent = "";
      pictures.classes(place, data);
    });
  }
  const rows = [...data.classes].sort((a, b) => {
    const order = a[state.by] < b[state.by] ? -1 : a[state.by] > b[state.by] ? 1 : 0;
    return state.isFalling ? -order : order;
  });
  const body = add(table, "tbody");
  for (const row of rows) {
    const line = add(body, "tr");
    add(line, "th", { scope: "row", dir: "auto", title: row.label }, short(row.label, 30));
    for (const name of SCORES) {
      const isCount = name === "support";
      const cell = add(line, "td", { class: isCount ? "bar count" : "bar" });
      cell.style.setProperty("--share", isCount ? row[name] / largest : row[name]);
      add(cell, "span", {}, isCount ? number(row[name]) : row[name].toFixed(3));
    }
  }
};
