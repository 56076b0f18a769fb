// What the reader chose, shared by all chapters and kept in the address of the page: a link opens
// the page as it was.

const state = {
  token: null, key: null, layer: 0, head: 0, // null: the one in focus, and the one with most weight
  look: 0, source: null, // whose attention is shown, and the chosen token of the source
  temperature: 1, topK: 0, topP: 1,
  option: null, unit: null, // the output whose logit is taken apart; a hidden unit; null: the first, the strongest
  step: null, // of the merges of a word; null: the last
  chapter: null, present: 0, // the one in view; whether it is shown alone
  without: "", shuffle: 0, beams: 0, draws: 0, // what if: parts left out, which order of the words, how many
  cached: null, // the step of the chapter on the KV cache; null: the last
  folded: "", // chapters, as "id,…"
  text: null, off: "", // typed instead of the page's own; heads switched off, as "layer.head,…"
};
const usualState = { ...state };
const followers = [], watchers = [], afterwards = [];
const chapters = []; // of the page, in their order; each file of a chapter adds its own

// `draw` is called now and whenever one of these values changes, until the page is drawn anew.
function follow(names, draw) {
  followers.push({ names: new Set(names), draw });
  draw();
}

// The same for as long as the page is open, and not now.
const watch = (names, act) => watchers.push({ names: new Set(names), draw: act });

function choose(changes) {
  const changed = Object.keys(changes).filter((name) => state[name] !== changes[name]);
  Object.assign(state, changes);
  if (!changed.length) return;
  for (const { names, draw } of [...followers, ...watchers]) {
    if (changed.some((name) => names.has(name))) draw();
  }
  for (const act of afterwards) act();
  keepInAddress();
}

// --- work that may wait until the page is drawn ---

const waiting = [];
let isAtWork = false;

function later(work) {
  waiting.push(work);
  if (!isAtWork) setTimeout(workOn);
  isAtWork = true;
}

// In slices: between two of them, the page answers.
function workOn() {
  const until = Date.now() + 12;
  try {
    while (waiting.length && Date.now() < until) waiting.shift()();
  } finally {
    isAtWork = waiting.length > 0;
    if (isAtWork) setTimeout(workOn);
  }
}

// --- the address ---

// At once, and then at most four times a second: browsers refuse more.
let isWritingAddress = false, isAddressOld = false;

function keepInAddress() {
  if (isWritingAddress) {
    isAddressOld = true;
    return;
  }
  writeAddress();
  isWritingAddress = true;
  setTimeout(() => {
    isWritingAddress = false;
    if (isAddressOld) writeAddress();
    isAddressOld = false;
  }, 250);
}

function writeAddress() {
  const values = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) if (value !== usualState[name]) values.set(name, value);
  try {
    history.replaceState(null, "", `#${values}`);
  } catch { /* some readers of files forbid it: then there is no link */ }
}

// --- reading an address: whatever is not a possible value is ignored ---

const MOST_TYPED = 20000; // letters in an address
const isWhole = (value) => /^\d{1,9}$/.test(value);
const ADDRESS = { // other names are places: whole numbers up to a limit
  temperature: (text, most) => asNumber(text, most),
  topP: (text, most) => asNumber(text, most),
  chapter: (text) => (/^[\w-]{1,40}$/.test(text) ? text : undefined),
  without: (text) => (/^(scale|positions|mask)(,(scale|positions|mask)){0,2}$/.test(text) ? text : undefined),
  folded: (text) => (/^[\w-]{1,40}(,[\w-]{1,40}){0,30}$/.test(text) ? text : undefined),
  text: (text) => (text.length <= MOST_TYPED ? text : undefined),
  off: (text) => (/^\d{1,3}\.\d{1,3}(\.[a-z]{1,9})?(,\d{1,3}\.\d{1,3}(\.[a-z]{1,9})?){0,599}$/.test(text) ? text : undefined),
};

function asNumber(text, most) {
  const value = /^\d*\.?\d+$/.test(text) ? Number(text) : NaN;
  return value >= 0 && value <= most ? value : undefined;
}

const asPlace = (text, most) => (isWhole(text) && Number(text) <= most ? Number(text) : undefined);

// Takes the values in an address into the state, each within its limit.
function fromAddress(limits, address = globalThis.location?.hash ?? "") {
  const values = new URLSearchParams(address.slice(1));
  for (const [name, most] of Object.entries(limits)) {
    const text = values.get(name);
    const value = text === null ? undefined : (ADDRESS[name] ?? asPlace)(text, most);
    if (value !== undefined) state[name] = value;
  }
}

// Heads as [[layer, head], …] ↔ the text in the state; those of other streams as [layer, head, group].
const headsOff = () => (state.off ? state.off.split(",").map((each) => each.split(".").map((part, n) => (n < 2 ? Number(part) : part))) : []);
const asOff = (heads) => heads.map((each) => each.filter((part) => part !== undefined).join(".")).sort().join(",");
