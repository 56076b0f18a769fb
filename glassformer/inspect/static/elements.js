// Elements, and the texts and numbers in them. All text of a model and of its data enters the page
// by textContent, so that none of it can be markup.

const SVG = "http://www.w3.org/2000/svg";

function add(parent, name, attributes = {}, text = null) {
  const namespace = name === "svg" ? SVG : parent.namespaceURI;
  const element = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  parent.append(element);
  return element;
}

// A label and its control, such as a checkbox; `changed` gets the control.
function addControl(parent, label, attributes, changed) {
  const line = add(parent, "label", { class: "control" }, `${label} `);
  const input = add(line, "input", attributes);
  input.addEventListener("input", () => changed(input));
  return input;
}

function addChoice(parent, label, options, chosen, changed) {
  const line = add(parent, "label", { class: "control" }, `${label} `);
  const select = add(line, "select");
  options.forEach(([value, text]) => {
    const isChosen = value === chosen ? { selected: "" } : {};
    add(select, "option", { value, ...isChosen }, text);
  });
  select.addEventListener("input", () => changed(select.value));
  return select;
}

// 12.3%; what is there but rounds to nothing is "<0.1%", and what is almost all has more digits.
function percent(share, digits = 1) {
  const least = 10 ** -digits, size = 100 * share, rest = 100 - size;
  if (size > 0 && size < least / 2) return `<${least.toFixed(digits)}%`;
  if (rest < 1e-5 || rest > least / 2) return `${size.toFixed(digits)}%`;
  const more = Math.ceil(-Math.log10(rest));
  return more > 3 ? ">99.999%" : `${size.toFixed(more)}%`;
}

// Two shares with as many digits as tell them apart, up to six.
function percents(one, other) {
  for (let digits = 1; digits < 6; digits += 1) {
    const pair = [percent(one, digits), percent(other, digits)];
    if (pair[0] !== pair[1] || one === other) return pair;
  }
  return [percent(one, 6), percent(other, 6)];
}

// 12,345 or 0.0123 or 1.5e-7: as many digits as a reader compares.
function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size < 1e-4) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

// "1 step", "2,000 steps"
const counted = (count, name) => `${number(count)} ${name}${count === 1 ? "" : "s"}`;

// +0.25 or −0.25; `text` is the size of the number.
const withSign = (value, text = number(Math.abs(value))) => `${value < 0 ? "−" : "+"}${text}`;

function short(label, most = 24) {
  const letters = Array.from(label); // whole characters, not halves of them
  const half = Math.floor((most - 1) / 2);
  if (letters.length <= most) return label;
  return `${letters.slice(0, half).join("")}…${letters.slice(-half).join("")}`;
}

// A name in a sentence keeps its direction of writing to itself.
const isolated = (label) => `\u2068${short(label)}\u2069`;

const isFromRight = (text) => {
  const found = text.match(/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/g) ?? [];
  return 2 * found.length > text.replace(/\s/g, "").length;
};

// What a token looks like where it would not be seen: a space, a line break, nothing at all.
function visible(token) {
  const signs = { "\n": "⏎", "\r": "⏎", "\t": "⇥" };
  const label = token.trim() || Array.from(token, (one) => signs[one] ?? "␣").join("") || "∅";
  if (/^[\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff]$/.test(label)) return `U+${label.charCodeAt(0).toString(16).toUpperCase()}`;
  return label.replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, (one) => {
    return `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

// A button that switches between light and dark; until it is used, the system decides.
function addThemeButton(parent) {
  const button = add(parent, "button", { type: "button", class: "theme" }, "Light or dark");
  button.addEventListener("click", () => {
    const asked = globalThis.matchMedia?.("(prefers-color-scheme: dark)").matches;
    const root = document.documentElement;
    const isDark = (root.style.colorScheme || (asked ? "dark" : "light")) === "dark";
    root.style.colorScheme = isDark ? "light" : "dark";
  });
}
