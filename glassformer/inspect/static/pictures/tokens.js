// A text in which each token is coloured by how much it surprised the model.

pictures.tokens = (place, { tokens, is_spaced: isSpaced }) => {
  const bits = tokens.map((token) => token.bits).filter((each) => each !== undefined);
  const ranked = [...bits].sort((a, b) => a - b);
  const strongest = Math.max(4, Math.ceil(ranked[Math.floor(0.97 * (ranked.length - 1))] ?? 4));
  const legend = add(place, "p", { class: "legend" });
  add(legend, "span", {}, "0 bits ");
  add(legend, "span", { class: "gradient" });
  add(legend, "span", {}, ` ${strongest} bits or more`);
  const said = add(place, "p", { class: "said" });
  const text = tokens.map((token) => token.text).join("");
  const passage = add(place, "p", { class: "passage", dir: isFromRight(text) ? "rtl" : "ltr" });
  const expected = (token) => {
    const guesses = token.guesses.map(([guess, share]) => `${isolated(visible(guess))} ${percent(share)}`);
    return `${isolated(visible(token.text))}: ${token.bits.toFixed(1)} bits (p = ${number(2 ** -token.bits)}). `
      + `Expected: ${guesses.join(", ")}`;
  };
  tokens.forEach((token, n) => {
    const isPart = token.text.startsWith("##");
    if (isSpaced && n && !isPart) add(passage, "span", {}, " ");
    const shown = (isSpaced && isPart ? token.text.slice(2) : token.text).replace(/\r?\n/g, "⏎\n");
    const known = token.bits === undefined ? "" : "token";
    const box = add(passage, "span", { class: known }, shown);
    if (!known) return;
    box.style.setProperty("--share", Math.min(1, token.bits / strongest));
    box.addEventListener("pointerenter", () => (said.textContent = expected(token)));
  });
  const worst = tokens.filter((token) => token.bits !== undefined)
    .reduce((best, token) => (best && best.bits >= token.bits ? best : token), null);
  if (worst) said.textContent = expected(worst);
};
pictures.tokens.isWide = true;
