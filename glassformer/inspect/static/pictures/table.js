// Rows of texts and numbers; on a narrow screen each row is a card.

const cells = {
  share(cell, value) {
    cell.textContent = percent(value);
    cell.classList.toggle("share-cell", true);
    cell.style.setProperty("--share", value);
  },
  number: (cell, value) => (cell.textContent = number(value)),
  count: (cell, value) => (cell.textContent = number(value)),
  interval(cell, value) {
    cell.textContent = value ? `${number(value[0])} to ${number(value[1])}` : "–";
  },
  label: (cell, value) => add(cell, "span", { class: "label", dir: "auto" }, value),
  text: (cell, value) => add(cell, "span", { class: "words", dir: "auto" }, value || "(empty)"),
  image: (cell, value) => add(cell, "img", { class: "thumbnail", src: value, alt: "" }),
  answer(cell, [text, score]) {
    const kind = score >= 1 ? "right" : "wrong";
    const sign = score >= 1 ? "✓" : score <= 0 ? "✗" : percent(score, 0);
    add(cell, "span", { class: `mark ${kind}` }, `${sign} `);
    add(cell, "span", { class: "words", dir: "auto" }, text || "(empty)");
  },
};

const pictures = {};

pictures.table = (place, { columns, kinds, rows }) => {
  const table = add(add(place, "div", { class: "scroll" }), "table", { class: "rows" });
  const head = add(add(table, "thead"), "tr");
  columns.forEach((name, n) => {
    add(head, "th", { scope: "col", class: `kind-${kinds[n]}`, dir: "auto" }, name);
  });
  const body = add(table, "tbody");
  for (const row of rows) {
    const line = add(body, "tr");
    row.forEach((value, n) => {
      const cell = add(line, "td", { class: `kind-${kinds[n]}`, "data-name": columns[n] });
      if (value === null) cell.textContent = "–";
      else cells[kinds[n]](cell, value);
    });
  }
};
pictures.table.isWide = true;
