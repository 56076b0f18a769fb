// A story as a column of the page that compares models: that page asks the questions, and what the
// reader does in one column happens in the others.

const SHARED_STATE = ["token", "key", "layer", "head", "temperature", "topK", "topP"];
const EDGE = 60; // px from the top: the reader reads what is below

function beColumn() {
  document.body.classList.add("column");
  const { origin } = globalThis.location;
  const tell = (message) => globalThis.parent.postMessage(message, origin);
  let isShown = false; // the first story
  let isLed = false; // by another column: then there is nothing to tell
  const acts = {
    ask: ({ changes }) => {
      if (isShown) Object.assign(state, { token: null, key: null });
      ask(changes);
    },
    state: ({ values, length }) => {
      if (!isShown) return;
      isLed = true;
      choose(possibleHere(values, length));
      isLed = false;
    },
    place: ({ chapter, share }) => {
      isLed = true; // until the reader moves something here
      goTo(chapter, share);
    },
    theme: ({ scheme }) => { document.documentElement.style.colorScheme = scheme; },
  };
  globalThis.addEventListener("message", (event) => {
    if (event.origin === origin && event.source === globalThis.parent) acts[event.data.kind]?.(event.data);
  });
  for (const kind of ["pointermove", "pointerdown", "wheel", "touchstart", "keydown"]) {
    globalThis.addEventListener(kind, () => { isLed = false; }, { passive: true });
  }
  globalThis.addEventListener("scroll", () => {
    if (!isLed) tell({ kind: "place", ...placeOfReader() });
  }, { passive: true });
  afterStory = () => {
    isShown = true;
    let told = null;
    follow(SHARED_STATE, () => {
      const changes = SHARED_STATE.filter((name) => told && told[name] !== state[name]);
      if (changes.length && !isLed) {
        const values = Object.fromEntries(changes.map((name) => [name, state[name]]));
        tell({ kind: "state", values, length: scene.main.tokens.length });
      }
      told = { ...state };
    });
    tell({ kind: "shown", off: state.off });
  };
  tell({ kind: "ready" });
}

// Places in a text of another length mean nothing here, nor do layers and heads that are not there.
function possibleHere(values, length) {
  const { tokens, layers } = scene.main;
  const limits = { layer: layers?.length ?? 0, head: layers?.[0].query.shape[0] ?? 0 };
  const isPossible = ([name, value]) => {
    if (name === "token" || name === "key") return length === tokens.length;
    return name in limits ? value < limits[name] : true;
  };
  return Object.fromEntries(Object.entries(values).filter(isPossible));
}

// The chapter that is read, and how much of it is above the edge.
function placeOfReader() {
  for (const section of document.querySelectorAll("section.chapter")) {
    const { top, bottom, height } = section.getBoundingClientRect();
    if (bottom > EDGE) return { chapter: section.id, share: (EDGE - top) / height };
  }
  return { chapter: null, share: 0 };
}

function goTo(chapter, share) {
  const section = chapter && document.querySelector(`section.chapter#${CSS.escape(chapter)}`);
  if (!section) return;
  const { top, height } = section.getBoundingClientRect();
  globalThis.scrollBy({ top: top + share * height - EDGE, behavior: "instant" });
}
