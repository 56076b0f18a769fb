// The page about a corpus: the funnel, examples of what each rule dropped, and what was kept.

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const words = (name) => name.replaceAll("_", " ");

function addSection(parent, title, note) {
  const section = add(parent, "section");
  add(section, "h2", {}, title);
  if (note) add(section, "p", { class: "hint" }, note);
  return section;
}

function bytes(count) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (count >= size) return `${number(Number((count / size).toPrecision(3)))} ${unit}`;
  }
  return `${count} bytes`;
}

function addHeadline() {
  const list = add(main, "ul", { class: "headline" });
  const items = [
    [number(data.kept), "documents kept"],
    [number(data.read), "pages read"],
    [percent(data.kept / Math.max(data.read, 1)), "of the pages"],
    [bytes(data.num_bytes), "of text"],
    [number(data.num_domains), data.num_domains === 1 ? "domain" : "domains"],
    [number(data.num_shards), data.num_shards === 1 ? "shard" : "shards"],
  ];
  for (const [value, name] of items) {
    const line = add(list, "li");
    add(line, "strong", {}, value);
    add(line, "span", {}, name);
  }
}

// A name, a bar and a count; the whole bar is `most`.
function addBar(parent, name, count, most, kind = "", title = "") {
  const row = add(parent, "div", { class: `bar-row ${kind}`, ...(title ? { title } : {}) });
  add(row, "span", { class: "bar-name", dir: "auto" }, name);
  const track = add(row, "span", { class: "track" });
  const bar = add(track, "span", { class: "fill" });
  bar.style.width = `${(100 * count) / Math.max(most, 1)}%`;
  add(row, "span", { class: "bar-count" }, number(count));
}

function addFunnel() {
  const section = addSection(main, "Step by step", "What each step kept, and which rules dropped the rest.");
  addBar(section, "Pages read", data.read, data.read, "left");
  for (const { about, left, rules } of data.steps) {
    for (const { rule, about: meaning, count } of rules) {
      const name = words(rule.split("/")[1]);
      addBar(section, meaning ? `${name}: ${meaning}` : name, count, data.read, "dropped");
    }
    addBar(section, about, left, data.read, "left");
  }
}

function addExample(parent, { url, title, detail, text, similarity }) {
  const item = add(parent, "blockquote", { class: "example" });
  const about = [title, detail, similarity === undefined ? "" : `similarity ${similarity.toFixed(2)}`];
  const shown = about.filter(Boolean).join(" · ");
  add(item, "p", { class: "source", dir: "auto" }, url);
  if (shown) add(item, "p", { class: "about", dir: "auto" }, shown);
  if (text) add(item, "p", { class: "words", dir: "auto" }, text);
}

function addFold(parent, title, examples, isOpen = false) {
  const fold = add(parent, "details", isOpen ? { open: "" } : {});
  add(fold, "summary", { dir: "auto" }, title);
  for (const each of examples) addExample(fold, each);
}

function addExamples() {
  const section = addSection(main, "Examples", "A few pages of each kind, chosen by a hash; texts are shortened here.");
  addFold(section, `kept (${number(data.kept)})`, data.examples.kept ?? [], true);
  for (const { rules } of data.steps) {
    for (const { rule, count } of rules) {
      addFold(section, `${words(rule)} (${number(count)})`, data.examples[rule] ?? []);
    }
  }
}

function addBars(parent, title, note, pairs) {
  const section = addSection(parent, title, note);
  const most = Math.max(...pairs.map(([, count]) => count), 1);
  for (const [name, count] of pairs) addBar(section, name, count, most);
}

function addStatistics() {
  const grid = add(main, "div", { class: "chapters" });
  const { up_to: limits, counts } = data.lengths;
  const lengths = counts.map((count, at) => {
    if (at === 0) return [`under ${number(limits[0])}`, count];
    return [at < limits.length ? `${number(limits[at - 1])} to ${number(limits[at] - 1)}` : `from ${number(limits.at(-1))}`, count];
  });
  const sorted = (counts) => Object.entries(counts).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const shown = sorted(data.languages).slice(0, 20);
  addBars(grid, "Lengths", "Characters of the documents that were kept.", lengths);
  addBars(grid, "Domains", "Those with the most documents.", sorted(data.domains).slice(0, 20).map(([name, count]) => [name || "–", count]));
  addBars(grid, "Languages", "All pages with text, before pages were dropped for their language.", shown);
}

function addClusters() {
  if (!data.clusters.length) return;
  const note = "The documents with the most duplicates, and some of the duplicates that were dropped.";
  const section = addSection(main, "Duplicates", note);
  for (const { size, kept, dropped } of data.clusters) {
    const fold = add(section, "details");
    add(fold, "summary", { dir: "auto" }, `${number(size)} pages like ${kept.url}`);
    addExample(fold, { ...kept, detail: "kept" });
    for (const each of dropped) addExample(fold, each);
    const others = size - 1 - dropped.length;
    if (others > 0) add(fold, "p", { class: "hint" }, `and ${number(others)} more`);
  }
}

function addFacts(parent, title, facts) {
  const section = add(parent, "section");
  add(section, "h3", {}, title);
  const list = add(section, "dl");
  for (const [name, value] of facts) {
    add(list, "dt", {}, name);
    add(list, "dd", { dir: "auto" }, value);
  }
}

function addRecipe() {
  const section = addSection(main, "Recipe", "The settings of the build, and the files it read.");
  const grid = add(section, "div", { class: "facts" });
  const shown = (value) => (value === null ? "–" : Array.isArray(value) ? value.join(", ") || "none" : typeof value === "number" ? number(value) : String(value));
  const groups = { Settings: [] };
  for (const [name, value] of Object.entries(data.recipe)) {
    const isGroup = value !== null && typeof value === "object" && !Array.isArray(value);
    if (isGroup) groups[words(name)] = Object.entries(value).map(([key, each]) => [words(key), shown(each)]);
    else groups.Settings.push([words(name), shown(value)]);
  }
  for (const [title, facts] of Object.entries(groups)) addFacts(grid, title, facts);
  const files = data.inputs.slice(0, 20).map(({ name, bytes: size, num_pages: pages }) => [name, `${bytes(size)}, ${number(pages)} pages`]);
  if (data.inputs.length > 20) files.push(["…", `${number(data.inputs.length)} files`]);
  addFacts(grid, "Files", files);
}

addThemeButton(document.getElementById("top"));
addHeadline();
addFunnel();
addExamples();
addStatistics();
addClusters();
addRecipe();
add(add(main, "footer"), "p", {}, `glassformer ${data.recipe.versions.glassformer}`);
