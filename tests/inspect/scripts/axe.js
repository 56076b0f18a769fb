// The faults that axe-core finds; SCHEME is light or dark.
await (async () => {
  document.documentElement.style.colorScheme = "SCHEME";
  for (let n = 0; n < 300 && (waiting.length || (isLive && !document.querySelector(".ask"))); n += 1) await new Promise((done) => setTimeout(done, 20));
  choose({ without: "scale", shuffle: 1, beams: 2, draws: 10 });
  while (waiting.length) waiting.shift()();
  look(document.querySelector(".chip, [data-of]").getAttribute("data-of"), true); // the sum is open, too
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.map(({ id, impact, nodes }) => [impact, id, nodes.slice(0, 3).map(({ html }) => html.slice(0, 200))]);
})()
