// What the reader chose, shared by all chapters and kept in the address of the page: a link opens
// the page as it was.

const state = { token: null, layer: 0, head: 0, key: null, temperature: 1, topK: 0, topP: 1 };
const followers = [];

// `draw` is called now and whenever one of these values changes.
function follow(names, draw) {
  followers.push({ names: new Set(names), draw });
  draw();
}

function choose(changes) {
  const changed = Object.keys(changes).filter((name) => state[name] !== changes[name]);
  Object.assign(state, changes);
  if (!changed.length) return;
  for (const { names, draw } of followers) if (changed.some((name) => names.has(name))) draw();
  keepInAddress();
}

function keepInAddress() {
  const values = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) if (value !== null) values.set(name, value);
  try {
    history.replaceState(null, "", `#${values}`);
  } catch { /* some readers of files forbid it: then there is no link */ }
}

// Numbers within their limits, from the address.
function fromAddress(limits) {
  const values = new URLSearchParams(globalThis.location?.hash.slice(1) ?? "");
  for (const [name, most] of Object.entries(limits)) {
    const value = values.get(name) === null ? NaN : Number(values.get(name));
    const isValid = name === "temperature" || name === "topP" || Number.isInteger(value);
    if (isValid && value >= 0 && value <= most) state[name] = value;
  }
}
