// Runs a page's script on as much of a browser as it needs, and tells what came of it.
// node page.mjs script.js data.json < a list of [row, event, key] to play

import { readFileSync } from "node:fs";

class Element {
  constructor(name, namespaceURI) {
    Object.assign(this, { name, namespaceURI, attributes: {}, children: [], style: {} });
    this.own = "";
    this.listeners = {};
    const names = () => new Set((this.attributes.class ?? "").split(" ").filter(Boolean));
    this.classList = {
      toggle: (one, on) => {
        const all = names();
        on ? all.add(one) : all.delete(one);
        this.attributes.class = [...all].join(" ");
      },
    };
  }
  get textContent() { return this.own + this.children.map((each) => each.textContent).join(""); }
  set textContent(text) { this.children = []; this.own = text; }
  setAttribute(key, value) {
    if (/NaN|undefined|Infinity/.test(value)) throw Error(`${this.name} ${key}=${value}`);
    this.attributes[key] = String(value);
  }
  append(child) { this.children.push(child); }
  addEventListener(kind, listener) { this.listeners[kind] = listener; }
  dispatch(kind, event = {}) { this.listeners[kind]?.({ preventDefault() {}, ...event }); }
  getComputedTextLength() { return 8 * this.textContent.length; }
  getElementsByTagName(name) { return this.children.filter((child) => child.name === name); }
  focus() {
    document.activeElement?.dispatch("blur");
    document.activeElement = this;
    this.dispatch("focus");
  }
  all() { return [this, ...this.children.flatMap((child) => child.all())]; }
}

const ids = Object.fromEntries(
  ["data", "title", "said", "lines", "map", "table"].map((id) => [id, new Element(id, "")]),
);
globalThis.document = {
  body: new Element("body", ""),
  getElementById: (id) => ids[id],
  createElementNS: (namespace, name) => new Element(name, namespace),
};
const [script, data] = process.argv.slice(2).map((file) => readFileSync(file, "utf8"));
ids.data.textContent = data;
await import(`data:text/javascript,${encodeURIComponent(script)}`);

const withClass = (id, name) =>
  ids[id].all().filter((each) => (each.attributes.class ?? "").split(" ").includes(name));
const words = withClass("lines", "word");
for (const [row, event, key] of JSON.parse(readFileSync(0, "utf8"))) {
  event === "focus" ? words[row].focus() : words[row].dispatch(event, { key });
}
const texts = (id, name) => ids[id].all().filter((each) => each.name === name);
console.log(JSON.stringify({
  title: document.title ?? null,
  said: ids.said.textContent,
  choosing: document.body.attributes.class ?? "",
  names: [...new Set(Object.values(ids).flatMap((each) => each.all().map(({ name }) => name)))],
  labels: texts("map", "text").map((each) => each.textContent),
  table: texts("table", "tr").map((row) => row.children.map((each) => each.textContent)),
  places: texts("lines", "text").map((each) => Number(each.attributes.x)),
  spoken: words.map((word) => word.attributes["aria-label"]),
  chosen: withClass("lines", "word").findIndex((word) => /chosen/.test(word.attributes.class)),
  rows: withClass("map", "chosen").length,
  curves: withClass("lines", "curve").length,
  chosen_curves: withClass("lines", "chosen").filter((each) => each.name === "path")
    .map((each) => Number(each.attributes["stroke-width"])),
  marks: withClass("lines", "behind").map((each) => each.style.opacity),
}));
