// Chapter 1: the text cut up.

// A token in a sentence: without quotes, a full stop would read as the end of it.
const quoted = (token) => `“${isolated(visible(token))}”`;

chapters.push({
  id: "tokens",
  title: "Tokens",
  note: "The model reads pieces of text, each with a number. Choose one: every picture below follows.",
  isShown: (scene) => scene.streams.some(({ picture }) => !picture),
  draw(place, scene) {
    for (const stream of scene.streams.filter(({ picture }) => !picture)) {
      if (scene.streams.length > 1) add(place, "h3", {}, stream.name);
      const row = add(place, "div", { class: "chips", dir: "auto", role: "listbox", "aria-label": `tokens of the ${stream.name}` });
      const chips = stream.tokens.map((token, number) => addChip(row, stream, token, number));
      if (stream !== scene.main) {
        chips.forEach((chip) => { chip.disabled = true; }); // the pictures follow the other text
        continue;
      }
      chips.forEach((chip, number) => chip.addEventListener("click", () => choose({ token: number, key: null })));
      follow(["token"], () => chips.forEach((chip, number) => {
        chip.classList.toggle("chosen", number === state.token);
        chip.setAttribute("aria-selected", number === state.token);
      }));
      row.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = Math.min(Math.max(state.token + step, 0), chips.length - 1);
        choose({ token: next });
        chips[next].focus();
        event.preventDefault();
      });
    }
  },
});

function addChip(row, stream, token, number) {
  const chip = add(row, "button", { type: "button", class: "chip", role: "option" });
  add(chip, "span", { class: "piece" }, token.startsWith(" ") && token.trim() ? `␣${visible(token)}` : visible(token));
  add(chip, "span", { class: "id" }, String(stream.ids[number] ?? ""));
  return chip;
}
