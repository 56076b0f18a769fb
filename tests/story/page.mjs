// Runs the script of an alignment page and reports what it drew.
// node page.mjs script.js data.json width < a list of [row, event, key] and ["control", n, value]

import { readFileSync } from "node:fs";
import { open } from "./browser.mjs";

const [script, data] = process.argv.slice(2, 4).map((file) => readFileSync(file, "utf8"));
const ids = await open(
  ["data", "title", "top", "about", "controls", "said", "room", "largest", "lines", "map", "table"],
  script, data, Number(process.argv[4]) || undefined,
);
const words = ids.lines.withClass("word");
const controls = ids.controls.all().filter(({ name }) => ["select", "input"].includes(name));
for (const [row, event, key] of JSON.parse(readFileSync(0, "utf8"))) {
  if (row === "control") {
    controls[event].value = key;
    controls[event].dispatch("input");
  } else if (event === "focus") words[row].focus();
  else words[row].dispatch(event, { key });
}
console.log(JSON.stringify({
  title: document.title ?? null,
  heading: ids.title.textContent,
  about: ids.about.textContent,
  controls: controls.map(({ name, attributes, children }) => [name, attributes.value ?? children.length]),
  largest: ids.largest.textContent,
  said: ids.said.textContent,
  choosing: document.body.attributes.class ?? "",
  names: [...new Set(Object.values(ids).flatMap((each) => each.all().map(({ name }) => name)))],
  labels: ids.map.named("text").filter((each) => each.attributes.class !== "name").map((each) => each.textContent),
  axes: ids.map.withClass("name").map((each) => each.textContent),
  table: ids.table.named("tr").map((row) => row.children.map((each) => each.textContent)),
  places: ids.lines.named("g").filter((each) => each.named("text").length)
    .map((each) => ["x", "y"].map((key) => Number(each.named("text")[0].attributes[key]))),
  width: Number(ids.lines.attributes.width),
  spoken: words.map((word) => word.attributes["aria-label"]),
  chosen: words.findIndex((word) => /chosen/.test(word.attributes.class)),
  rows: ids.map.withClass("chosen").length,
  curves: ids.lines.withClass("curve").length,
  chosen_curves: ids.lines.withClass("chosen").filter((each) => each.name === "path")
    .map((each) => Number(each.attributes["stroke-width"])),
  marks: ids.lines.withClass("behind").map((each) => each.style.opacity),
}));
