// Runs the script of a report and reports what it drew.
// node report.mjs script.js data.json width < a list of events to play: [class or name, n, event, values]

import { readFileSync } from "node:fs";
import { open } from "./browser.mjs";

const [script, data] = process.argv.slice(2, 4).map((file) => readFileSync(file, "utf8"));
const ids = await open(["data", "main", "title", "top"], script, data, Number(process.argv[4]));
for (const [name, n, event, values] of JSON.parse(readFileSync(0, "utf8"))) {
  const found = [...ids.main.withClass(name), ...ids.main.named(name)][n];
  Object.assign(found, values ?? {});
  found.dispatch(event, values);
}
const texts = (found) => found.map((each) => each.textContent);
console.log(JSON.stringify({
  title: document.title,
  headings: texts(ids.main.named("h2")),
  pictures: ids.main.withClass("picture").map((each) => each.attributes.class.split(" ")[1]),
  notes: texts(ids.main.withClass("hint")),
  said: texts(ids.main.withClass("said")),
  readouts: texts(ids.main.withClass("readout")),
  panels: texts(ids.main.named("strong")),
  tables: ids.main.named("table").map((table) => table.named("tr").map((row) => texts(row.children))),
  labels: texts(ids.main.named("text")),
  tokens: ids.main.withClass("token").map((each) => [each.textContent, Number(each.style["--share"])]),
  tags: ids.main.withClass("tag").map((each) => each.textContent),
  facts: Object.fromEntries(ids.main.named("dt").map((each, n) => [each.textContent, ids.main.named("dd")[n].textContent])),
  footer: texts(ids.main.named("footer")),
  scheme: document.documentElement.style.colorScheme ?? "",
  names: [...new Set(ids.main.all().map(({ name }) => name))].sort(),
}));
