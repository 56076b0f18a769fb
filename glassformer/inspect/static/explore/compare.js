// Several models on one text, side by side: a column for each, which is the story page of that model.
// The text, the columns and the state of the page are in its address.

const { models, text: firstText } = JSON.parse(document.getElementById("data").textContent).server;
const MOST_COLUMNS = 4;
const values = valuesInAddress(), columns = [];
const shared = { text: values.get("text") ?? firstText, image: null, image_name: null };
const rest = Object.fromEntries([...values].filter(([name]) => !["model", "off", "text"].includes(name)));

const say = (message) => { document.getElementById("said").textContent = message; };
const known = (name) => models.find((each) => each.name === name);
const addressOf = (pairs) => `#${new URLSearchParams([...pairs, ["text", shared.text], ...Object.entries(rest)])}`;

function keepAddress() {
  const pairs = columns.flatMap(({ model, off }) => [["model", model.name], ["off", off]]);
  history.replaceState(null, "", addressOf(pairs));
  for (const { model, off, alone } of columns) alone.href = `/${addressOf([["model", model.name], ["off", off]])}`;
}

const { origin } = globalThis.location;
const send = (column, message) => column.frame.contentWindow.postMessage(message, origin);

// A question to a column, if there is an input that its model can read. From the first one on, the
// column itself knows which heads are switched off.
function askColumn(column) {
  const { model, off, isAsked } = column;
  column.wait.hidden = !model.reads_image || Boolean(shared.image);
  column.frame.hidden = !column.wait.hidden; // it may show a story of another model
  if (!column.isReady || !column.wait.hidden) return;
  const { text, image, image_name } = shared;
  const input = model.reads_image ? { text: null, image, image_name } : { text, image: null, image_name: null };
  send(column, { kind: "ask", changes: { ...input, ...(isAsked ? {} : { model: model.name, off: headsFrom(off) }) } });
  column.isAsked = true;
}

function showInputs() {
  textBox.hidden = columns.every(({ model }) => model.reads_image);
  imageBox.hidden = !columns.some(({ model }) => model.reads_image);
  more.hidden = columns.length >= MOST_COLUMNS;
  for (const { remove } of columns) remove.hidden = columns.length === 1;
  document.title = columns.map(({ model }) => model.name).join(" and ");
}

function addColumn(model, off) {
  const place = add(document.getElementById("columns"), "section", { class: "column-of-model" });
  const head = add(place, "div", { class: "column-head" });
  const column = { model, off, isReady: false, isAsked: false };
  const options = models.map((each) => [each.name, nameOfModel(each)]);
  addChoice(head, "Model", options, model.name, (name) => {
    Object.assign(column, { model: known(name), off: "", isAsked: false });
    column.frame.title = `story of ${name}`;
    changed(column);
  });
  column.alone = add(head, "a", {}, "Open alone");
  column.remove = add(head, "button", { type: "button", "aria-label": "Remove this column" }, "×");
  column.remove.addEventListener("click", () => {
    columns.splice(columns.indexOf(column), 1);
    place.remove();
    showInputs();
    keepAddress();
  });
  column.wait = add(place, "p", { class: "hint", hidden: "" }, "This model reads images. Choose an image file.");
  column.frame = add(place, "iframe", { src: `/${addressOf([])}`, title: `story of ${model.name}` });
  columns.push(column);
}

function changed(column) {
  askColumn(column);
  showInputs();
  keepAddress();
}

// A change of the input, which all columns share.
function renew(changes) {
  Object.assign(shared, changes);
  for (const name of ["token", "key"]) delete rest[name];
  columns.forEach(askColumn);
  keepAddress();
}

const heard = {
  ready(column) {
    column.isReady = true;
    send(column, { kind: "theme", scheme: document.documentElement.style.colorScheme });
    askColumn(column);
  },
  shown(column, { off }) {
    column.off = off;
    keepAddress();
  },
  state(column, message) {
    Object.assign(rest, message.values);
    for (const [name, value] of Object.entries(rest)) if (value === null) delete rest[name];
    tellOthers(column, message);
    keepAddress();
  },
  place: tellOthers,
};

function tellOthers(column, message) {
  for (const other of columns) if (other !== column && other.isReady) send(other, message);
}

globalThis.addEventListener("message", ({ data: message, origin: from, source }) => {
  const column = columns.find(({ frame }) => frame.contentWindow === source);
  if (from === origin && column) heard[message.kind]?.(column, message);
});
globalThis.addEventListener("hashchange", () => globalThis.location.reload());

document.body.classList.add("explored");
const row = add(document.getElementById("top"), "div", { class: "ask served" });
const textBox = addTextBox(row, shared.text, (typed) => renew({ text: typed }));
const imageBox = addImageBox(row, renew, say);
const more = add(row, "button", { type: "button" }, "Add a model");
more.addEventListener("click", () => {
  const next = models.find((each) => columns.every(({ model }) => model !== each)) ?? models[0];
  addColumn(next, "");
  showInputs();
  keepAddress();
});

addThemeButton(document.getElementById("top"));
document.querySelector(".theme").addEventListener("click", () => {
  const scheme = document.documentElement.style.colorScheme;
  for (const column of columns) if (column.isReady) send(column, { kind: "theme", scheme });
});

const wanted = values.getAll("model"), offs = values.getAll("off");
const unknown = wanted.filter((name) => !known(name));
if (unknown.length) say(`There is no model “${short(unknown[0])}” here.`);
const first = wanted.map((name, n) => [known(name), textOfHeads(headsFrom(offs[n]))]).filter(([model]) => model);
const usual = [[models[0], ""], [models[1] ?? models[0], ""]];
for (const [model, off] of (first.length ? first : usual).slice(0, MOST_COLUMNS)) addColumn(model, off);
showInputs();
keepAddress();
