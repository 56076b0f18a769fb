// Chooses tokens, points at every kind of number, and saves every picture.
await (async () => {
  const numbers = new Set(), pictures = [];
  for (let token = 0; token < scene.main.tokens.length; token += 7) {
    choose({ token, key: token % 3 ? null : 0, layer: token % 2 });
    for (const each of document.querySelectorAll("[data-of]")) {
      const of = each.getAttribute("data-of"), name = of.split("/")[0];
      if (readRef(of).operation && !numbers.has(name + token % 5)) {
        numbers.add(name + token % 5);
        look(of, true);
        unlock();
      }
    }
  }
  while (waiting.length) await new Promise((done) => setTimeout(done, 20));
  for (const figure of document.querySelectorAll("figure")) pictures.push(svgOf(figure));
  return {
    faults, pictures, hacked: globalThis.hacked ?? null, title: document.getElementById("title").textContent,
    strange: document.querySelectorAll("img, iframe, object, embed, link:not([rel=icon]), math, script[src], [onerror], [onload], [onfocus]").length,
    scripts: document.scripts.length, tokens: scene.main.tokens,
    chips: [...document.querySelectorAll(".chip .piece")].map(({ textContent }) => textContent),
    loaded: performance.getEntriesByType("resource").map(({ name }) => name),
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  };
})()
