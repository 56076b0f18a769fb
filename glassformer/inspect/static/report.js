// The report: what was trained, how it went, and a section for each chapter. Knows no task: a
// chapter names the picture that draws it.

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const drawn = []; // pictures that follow the width of the page

function addSection(parent, title, note, level = "h2") {
  const section = add(parent, "section");
  add(section, level, { dir: "auto" }, title);
  if (note) add(section, "p", { class: "hint" }, note);
  return section;
}

function addPicture(section, name, values) {
  const picture = pictures[name];
  section.classList.toggle("wide", Boolean(picture.isWide) || (values.labels ?? []).length > 14);
  const place = add(section, "div", { class: `picture ${name}` });
  picture(place, values);
  drawn.push({ place, width: place.clientWidth, draw: () => picture(place, values) });
}

function addChapters(parent, chapters) {
  const grid = add(parent, "div", { class: "chapters" });
  for (const { title, picture, data: values, note } of chapters) {
    addPicture(addSection(grid, title, note), picture, values);
  }
}

const shown = (value) => (typeof value === "number" ? number(value) : String(value));

// The few numbers that a reader looks for first.
function addHeadline(parent, run) {
  const list = add(parent, "ul", { class: "headline" });
  const item = (value, name) => {
    const line = add(list, "li");
    add(line, "strong", {}, value);
    add(line, "span", {}, name);
  };
  if (run.best) {
    const name = inWords(run.measure);
    item(number(run.best.scores[`val_${run.measure}`]), `validation ${name} at step ${number(run.best.step)}`);
    for (const [key, value] of Object.entries(run.best.scores)) {
      if (key !== `val_${run.measure}`) item(number(value), `validation ${inWords(key)}`);
    }
  } else {
    item("–", "no validation yet");
  }
  const parameters = run.facts.Model.parameters;
  if (parameters) item(number(parameters), "parameters");
}

function addFacts(parent, run) {
  const grid = add(parent, "div", { class: "facts" });
  for (const [title, facts] of Object.entries(run.facts)) {
    const section = add(grid, "section");
    add(section, "h3", {}, title);
    const list = add(section, "dl");
    for (const [name, value] of Object.entries(facts)) {
      add(list, "dt", {}, name);
      add(list, "dd", { dir: "auto" }, shown(value));
    }
  }
}

function addSamples(parent, samples) {
  const section = addSection(parent, "Samples", "What the model wrote or answered at each validation.");
  const rows = samples.map(({ step, text }) => [step, text]);
  const values = { columns: ["step", "sample"], kinds: ["count", "text"], rows };
  addPicture(section, "table", values);
}

// All about one run except its curves.
function addRun(parent, run) {
  addHeadline(parent, run);
  for (const note of run.notes) add(parent, "p", { class: "note" }, note);
  if (run.test) add(parent, "p", { class: "test" }, `Test data: ${run.test}.`);
  addFacts(parent, run);
}

function addSingle(run) {
  addRun(main, run);
  addCurves([run]);
  addChapters(main, run.chapters);
  if (run.samples.length) addSamples(main, run.samples);
}

function addCurves(runs) {
  if (!runs.some((run) => (run.metrics.step ?? []).length)) return;
  const compared = runs.filter(({ metrics }) => metrics.train_loss && metrics.val_loss);
  const notes = new Set(compared.map(({ about_loss: about }) => about).filter(Boolean));
  const section = addSection(main, "Learning curves", notes.size === 1 ? [...notes][0] : "");
  if (notes.size > 1) for (const { name, about_loss: about } of compared) add(section, "p", { class: "hint" }, `${isolated(name)}: ${about}`);
  addPicture(section, "curves", { runs });
}

// Each run in a fold of its own; it is drawn when it is opened, because hidden text has no width.
function addSeveral(runs) {
  addCurves(runs);
  addChapters(main, data.together);
  for (const run of runs) {
    const fold = add(main, "details", { class: "run" });
    add(fold, "summary", { dir: "auto" }, `${run.name}: ${run.title}`);
    let isDrawn = false;
    fold.addEventListener("toggle", () => {
      if (!fold.open || isDrawn) return;
      isDrawn = true;
      addRun(fold, run);
      addChapters(fold, run.chapters);
      if (run.samples.length) addSamples(fold, run.samples);
    });
  }
}

function addFooter(runs) {
  const footer = add(main, "footer");
  if (runs.some((run) => run.tensorboard)) {
    const line = add(footer, "p", {}, "The curves are also in TensorBoard's format: run ");
    add(line, "code", {}, "tensorboard --logdir RUN");
    add(line, "span", {}, " with the folder of the run.");
  }
  add(footer, "p", {}, `glassformer ${runs[0].version}`);
}

const title = data.runs.length > 1 ? `${data.runs.length} runs side by side` : data.runs[0].title;
document.title = title;
document.getElementById("title").textContent = title;
addThemeButton(document.getElementById("top"));
if (data.runs.length > 1) addSeveral(data.runs);
else addSingle(data.runs[0]);
addFooter(data.runs);

if (globalThis.ResizeObserver) {
  const redraw = () => {
    for (const picture of drawn) {
      const width = picture.place.clientWidth;
      if (!width || width === picture.width) continue;
      picture.width = width;
      picture.place.textContent = "";
      picture.draw();
    }
  };
  new ResizeObserver(() => requestAnimationFrame(redraw)).observe(main);
}
