// Runs the script of a page of word places and reports what it showed after each step.
// node word_places.mjs script.js data.json < a list of [what, number, event]

import { readFileSync } from "node:fs";
import { open } from "./browser.mjs";

const [script, data] = process.argv.slice(2, 4).map((file) => readFileSync(file, "utf8"));
const ids = await open(["data", "title", "top", "about", "controls", "scene"], script, data, 800);
const words = ids.scene.withClass("word"), places = ids.scene.withClass("place");
const controls = ids.controls.named("select");
const found = [];
for (const [what, number, event] of JSON.parse(readFileSync(0, "utf8"))) {
  if (what === "head") {
    controls.at(-1).value = String(number);
    controls.at(-1).dispatch(event);
  } else (what === "word" ? words : places)[number].dispatch(event);
  const isChosen = (each) => /chosen/.test(each.attributes.class);
  found.push({
    words: words.map((each) => each.textContent),
    chosen_word: words.findIndex(isChosen),
    chosen_place: places.findIndex(isChosen),
    dark: places.map((each) => Number(each.attributes["fill-opacity"])),
    shares: words.map((each) => Number(each.children[0].style.opacity)),
    said: ids.scene.withClass("said")[0].textContent,
  });
}
console.log(JSON.stringify(found));
