// The story page of `glassformer explore`: a server computes what it shows. Alone, the page has a
// box for the text; as a column beside another model, it gets the text from the page around it.

const SLOW = 500; // ms after which a computation is announced
const RETRIES = 30; // of a request while the server is busy, one each second

async function answerOf(path, question, signal) {
  for (let tries = 0; ; tries += 1) {
    let answer;
    try {
      answer = await fetch(path, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question), signal,
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw Error("The server does not answer. Is glassformer explore still running?");
    }
    const found = await answer.json().catch(() => null);
    if (answer.ok && found !== null) return found;
    if (answer.status !== 429 || tries === RETRIES) throw Error(found?.error?.message ?? `The server answered with an error (${answer.status}).`);
    await new Promise((done) => setTimeout(done, 1000));
  }
}

// Parts of a story that are computed when the reader comes to a chapter: a large model takes long to
// run many times.
const CHAPTERS_OF_PARTS = { effects: "layers", beams: "prediction", attribution: "prediction", history: "prediction" };

function whenSeen(element, act) {
  const watcher = new IntersectionObserver((entries) => {
    if (!entries.some((each) => each.isIntersecting)) return;
    watcher.disconnect();
    act();
  }, { rootMargin: "200px" });
  watcher.observe(element);
}

// What the reader reads stays where it is while a chapter above it grows.
function growing(id, act) {
  const bottom = () => document.getElementById(id).getBoundingClientRect().bottom;
  const before = bottom();
  act();
  if (before < globalThis.innerHeight / 4) globalThis.scrollBy({ top: bottom() - before, behavior: "instant" });
}

const question = { model: null, text: null, image: null, image_name: null, off: [] };
let useStory = null; // gets the data of each story
let afterStory = null; // is called when it is shown
let useNothing = null; // is called with a title if there is no story of what the reader asked for
let missing = "Type a word."; // what is said without an input
let addToStory = null; // gets what is to be added to the story that is shown
let isComputing = false, isQuestionNew = false;
let ending = new AbortController(); // of the requests for parts of the story that is shown

function sayServed(message) {
  document.getElementById("served").textContent = message;
}

// One request at a time, and the last question is always answered.
async function ask(changes) {
  Object.assign(question, changes);
  isQuestionNew = true;
  ending.abort();
  if (isComputing) return;
  isComputing = true;
  while (isQuestionNew) {
    isQuestionNew = false;
    const asked = { ...question }, slow = setTimeout(() => sayServed("Computing …"), SLOW);
    if (!asked.image && !asked.text?.trim()) {
      clearTimeout(slow);
      refuse(asked, missing);
      continue;
    }
    document.body.classList.add("is-computing");
    try {
      const found = await answerOf("/api/story", asked);
      if (!isQuestionNew) useStory(readStory(found, asked));
    } catch (error) {
      if (!isQuestionNew) refuse(asked, error.message);
    }
    clearTimeout(slow);
  }
  isComputing = false;
  document.body.classList.remove("is-computing");
}

// The story of the last input would stand below the name of another one.
function refuse({ model, text, image_name: name }, message) {
  sayServed(message);
  useNothing?.(name ?? (text?.trim() || model));
}

// The data of a story, and a function that switches heads off.
function readStory(found, asked) {
  const off = asked.off.map(([layer, head]) => `head ${head} of layer ${layer}`).join(", ");
  sayServed(off && `Switched off: ${off}.`);
  const heads = found.streams.at(-1).layers?.[0].query.shape[0] ?? 1;
  Object.assign(state, { model: asked.model, text: asked.text, off: textOfHeads(asked.off), head: Math.min(state.head, heads - 1) });
  const switchHead = (layer, head, group) => {
    if (group !== undefined) return sayServed("Here, only heads of the text that is written can be switched off.");
    const others = asked.off.filter(([l, h]) => l !== layer || h !== head);
    return ask({ off: others.length === asked.off.length ? [...others, [layer, head]] : others });
  };
  return { ...found, asked, silent: asked.off, switchHead };
}

// Asks for the parts that are missing, each when the reader comes to its chapter. The page is drawn
// anew with each of them, and so are the chapters.
function askForParts({ later, asked }) {
  ending.abort();
  ending = new AbortController();
  const { signal } = ending;
  for (const name of later) {
    const id = CHAPTERS_OF_PARTS[name] ?? "tokens", section = document.getElementById(id);
    if (!section) continue;
    const wait = add(section, "p", { class: "hint waits" });
    whenSeen(section, async () => {
      if (signal.aborted) return;
      wait.textContent = "The model is being run many times for the rest …";
      try {
        const part = await answerOf(`/api/story/${name}`, asked, signal);
        if (!signal.aborted) growing(id, () => addToStory({ ...part, later: later.filter((each) => each !== name) }));
      } catch (error) {
        if (!signal.aborted) wait.textContent = error.message;
      }
    });
  }
}

// The first story: that of the address, or else of the first text that the server suggests.
function firstStory(server) {
  add(document.getElementById("live"), "p", { id: "served", class: "said warning", "aria-live": "polite" });
  const first = new Promise((done) => { useStory = done; });
  if (globalThis.parent !== globalThis) beColumn();
  else askReader(server);
  return first;
}

// From the first story on: `draw` gets the data of each, `extend` what is added to the last one, and
// `clear` a title if there is none.
function showStories(draw, extend, clear) {
  let place = null; // of the reader in the last story
  useStory = (found) => {
    draw(found);
    if (place !== null) globalThis.scrollTo(0, place);
    place = null;
    afterStory();
    askForParts(found);
  };
  useNothing = (title) => {
    place ??= globalThis.scrollY;
    clear(title);
  };
  addToStory = (part) => {
    extend(part);
    afterStory();
    askForParts(scene);
  };
  setTimeout(() => { // the page draws the first one by itself
    afterStory();
    askForParts(scene);
  });
}

// --- alone: the reader chooses a model and an input ---

function askReader({ models, text }) {
  const values = valuesInAddress(), top = document.getElementById("top");
  document.body.classList.add("explored");
  // The box and the chapters stay in view: the reader types, and watches any of them.
  const bar = add(document.getElementById("main"), "div", { class: "bar" });
  document.getElementById("main").prepend(bar);
  bar.append(top, document.getElementById("nav"));
  const row = add(top, "div", { class: "ask served" });
  const known = models.find(({ name }) => name === values.get("model"));
  let model = known ?? models[0];
  const options = models.map((each) => [each.name, nameOfModel(each)]);
  if (models.length > 1) {
    addChoice(row, "Model", options, model.name, (name) => {
      model = models.find((each) => each.name === name);
      showBoxes();
      Object.assign(state, { token: null, key: null });
      askModel([]);
    });
  }
  const renew = (changes) => {
    Object.assign(state, { token: null, key: null });
    ask(changes);
  };
  const textBox = addTextBox(row, values.get("text") ?? text, (typed) => renew({ text: typed }));
  let picked = null; // the last image
  const imageBox = addImageBox(row, (image) => {
    picked = image;
    renew(image);
  }, sayServed);
  addChoice(row, "Compare with", [["", "–"], ...options], "", (other) => {
    if (!other) return;
    const rest = Object.entries(state).filter(([name, value]) => value !== null && name !== "model" && name !== "off");
    const pair = [["model", model.name], ["off", state.off], ["model", other], ["off", ""]];
    globalThis.location.assign(`/compare#${new URLSearchParams([...pair, ...rest])}`);
  });
  function showBoxes() {
    textBox.hidden = model.reads_image;
    imageBox.hidden = !model.reads_image;
  }
  function askModel(off) {
    missing = model.reads_image ? `${model.name} reads images. Choose an image file.` : "Type a word.";
    const nothing = { image: null, image_name: null }, typed = textBox.querySelector("textarea").value;
    ask({ model: model.name, off, ...(model.reads_image ? { text: null, ...(picked ?? nothing) } : { text: typed, ...nothing }) });
  }
  afterStory = keepInAddress;
  globalThis.addEventListener("hashchange", () => globalThis.location.reload());
  showBoxes();
  askModel(known ? headsFrom(values.get("off")) : []);
  if (values.has("model") && !known) sayServed(`There is no model “${short(values.get("model"))}” here.`);
}
