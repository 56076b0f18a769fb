// All figures of a dark page as SVG.
await (async () => {
  while (!document.querySelector(".ask") || waiting.length) await new Promise((done) => setTimeout(done, 20));
  choose({ layer: 1, head: 2 });
  document.documentElement.style.colorScheme = "dark";
  return [...document.querySelectorAll("figure")].map((figure) => ({
    svg: svgOf(figure), name: fileNameOf(figure), caption: figure.querySelector("figcaption")?.textContent ?? "",
    buttons: figure.querySelectorAll(".save").length,
  }));
})()
