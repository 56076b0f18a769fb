// A figure of the page as a standalone SVG: what the browser drew, read back from its layout in light
// colours. Texts stay text, canvases become embedded images, and the caption and the origin of the
// numbers stand below the picture.

const SAVED = { room: 16, line: 17, least: 380 };
const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family", "font-style", "text-anchor", "paint-order"];
const UNPAINTED = ".save, .spoken, .unsaved, figcaption, script, style, title";

function svgOf(figure) {
  const root = document.documentElement, scheme = root.style.colorScheme;
  root.style.colorScheme = "light";
  root.classList.add("saving");
  try {
    return paintedFigure(figure);
  } finally {
    root.style.colorScheme = scheme;
    root.classList.remove("saving");
  }
}

function paintedFigure(figure) {
  const file = document.implementation.createDocument(SVG, "svg", null), svg = file.documentElement;
  const caption = figure.querySelector("figcaption")?.textContent ?? "";
  const name = figure.getAttribute("data-name") ?? figure.closest("section")?.querySelector("h2")?.textContent ?? "picture";
  const origin = originOf(figure), spoken = figure.querySelector(".spoken")?.textContent ?? "";
  addTo(svg, "title", {}, `${name}: ${short(visible(scene.text), 80)}`);
  addTo(svg, "desc", {}, [caption, spoken, origin].filter(Boolean).join("\n"));
  const paper = addTo(svg, "rect", { fill: "#ffffff" });
  const picture = addTo(svg, "g", {});
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  paintElement({ to: picture, box, stored: {} }, figure);
  if (box.left === Infinity) Object.assign(box, { left: 0, top: 0, right: 0, bottom: 0 });
  const { room, line, least } = SAVED;
  const width = Math.ceil(Math.max(box.right - box.left, least) + 2 * room);
  picture.setAttribute("transform", `translate(${rounded(room - box.left)} ${rounded(room + 26 - box.top)})`);
  const style = { x: room, "font-family": "system-ui, sans-serif", fill: "#22262b" };
  addTo(svg, "text", { ...style, y: room + 10, "font-size": 15, "font-weight": 600 }, name);
  let y = room + 26 + (box.bottom - box.top) + 24;
  const letters = Math.floor((width - 2 * room) / 6.4);
  const quiet = { ...style, fill: "#5b636d", "font-size": 12.5 };
  for (const text of [...wrapped(caption, letters), ...wrapped(origin, letters)]) {
    addTo(svg, "text", { ...quiet, y }, text);
    y += line;
  }
  const height = Math.ceil(y - line + room);
  const size = { width, height };
  for (const [key, value] of Object.entries({ ...size, viewBox: `0 0 ${width} ${height}`, role: "img" })) svg.setAttribute(key, value);
  for (const [key, value] of Object.entries(size)) paper.setAttribute(key, value);
  return new XMLSerializer().serializeToString(file);
}

// XML knows no control characters and no halves of characters.
// eslint-disable-next-line no-control-regex
const forXml = (text) => (text.toWellFormed?.() ?? text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
const rounded = (value) => Number(value.toFixed(2));

function addTo(parent, name, attributes, text = null) {
  const element = parent.ownerDocument.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, forXml(String(value)));
  if (text !== null) element.textContent = forXml(text);
  parent.append(element);
  return element;
}

function wrapped(text, letters) {
  const lines = [""];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const last = lines.length - 1;
    if (lines[last] && lines[last].length + word.length >= letters) lines.push(short(word, letters));
    else lines[last] += (lines[last] && " ") + short(word, letters);
  }
  return lines.filter(Boolean);
}

// rgb(1, 2, 3), rgba(…), color(srgb 0.1 …) → ["#010203", opacity]
function colourOf(text) {
  const numbers = (text.match(/-?[\d.]+(?:e-?\d+)?%?/g) ?? []).map(parseFloat);
  if (numbers.length < 3) return [text === "none" || text === "transparent" ? "none" : "#000000", 1];
  const factor = text.startsWith("color(") ? 255 : 1;
  const hex = numbers.slice(0, 3).map((each) => Math.max(0, Math.min(255, Math.round(each * factor))).toString(16).padStart(2, "0"));
  return [`#${hex.join("")}`, numbers[3] ?? 1];
}

function paintElement(out, element) {
  const style = getComputedStyle(element);
  if (style.display === "none" || style.visibility === "hidden" || element.matches(UNPAINTED)) return;
  const place = element.getBoundingClientRect();
  if (element.namespaceURI === SVG) return paintSvg(out, element, place);
  if (element.tagName === "CANVAS") return paintCanvas(out, element, place);
  if (element.tagName === "IMG") return paintImage(out, element.src, place);
  const opacity = Number(style.opacity);
  const inside = opacity < 1 ? { ...out, to: addTo(out.to, "g", { opacity }) } : out;
  paintBox(inside, style, place);
  if (element.tagName === "SELECT") return paintWords(inside, element.selectedOptions[0]?.textContent ?? "", place, style);
  if (element.tagName === "INPUT") return paintSlider(inside, element, place);
  for (const child of element.childNodes) {
    if (child.nodeType === Node.ELEMENT_NODE) paintElement(inside, child);
    else if (child.nodeType === Node.TEXT_NODE) paintText(inside, child, style);
  }
}

function widen(box, { left, top, right, bottom }) {
  box.left = Math.min(box.left, left);
  box.top = Math.min(box.top, top);
  box.right = Math.max(box.right, right);
  box.bottom = Math.max(box.bottom, bottom);
}

function paintBox(out, style, place) {
  if (!place.width || !place.height) return;
  const at = { x: rounded(place.left), y: rounded(place.top), width: rounded(place.width), height: rounded(place.height) };
  const corner = parseFloat(style.borderTopLeftRadius) || 0, rx = corner ? { rx: corner } : {};
  const [fill, opacity] = colourOf(style.backgroundColor);
  const isHatched = style.backgroundImage.startsWith("repeating");
  if (isHatched || (fill !== "none" && opacity > 0)) {
    addTo(out.to, "rect", isHatched ? { ...at, ...rx, fill: "#c6ccd3" } : { ...at, ...rx, fill, "fill-opacity": opacity });
    widen(out.box, place);
  }
  const ring = style.boxShadow.match(/^(.*\)) 0px 0px 0px ([\d.]+)px/); // a frame of another kind
  if (ring) {
    const [stroke, strength] = colourOf(ring[1]);
    addTo(out.to, "rect", { ...at, ...rx, fill: "none", stroke, "stroke-opacity": strength, "stroke-width": parseFloat(ring[2]) });
  }
  const [stroke, strength] = colourOf(style.borderTopColor), width = parseFloat(style.borderTopWidth);
  const isFrame = width > 0 && parseFloat(style.borderLeftWidth) > 0 && strength > 0 && stroke !== "none";
  if (isFrame) {
    addTo(out.to, "rect", { ...at, ...rx, fill: "none", stroke, "stroke-opacity": strength, "stroke-width": width });
    widen(out.box, place);
  }
}

// A text of the page, line by line as the browser broke it.
function paintText(out, node, style) {
  if (!node.textContent.trim()) return;
  const range = document.createRange();
  range.selectNodeContents(node);
  const lines = range.getClientRects();
  if (lines.length <= 1) {
    if (lines.length) paintWords(out, node.textContent, lines[0], style);
    return;
  }
  let start = 0, top = null, place = null;
  const letters = node.textContent;
  for (let at = 0; at < letters.length; at += 1) {
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    const [here] = range.getClientRects();
    if (!here?.width) continue;
    if (top !== null && Math.abs(here.top - top) > 3) {
      paintWords(out, letters.slice(start, at), place, style);
      [start, place] = [at, null];
    }
    top = here.top;
    place = place === null ? here : { left: Math.min(place.left, here.left), top: place.top, right: here.right, bottom: here.bottom, height: here.height };
  }
  if (place) paintWords(out, letters.slice(start), place, style);
}

let measuring = null;

function paintWords(out, text, place, style) {
  measuring ??= document.createElement("canvas").getContext("2d");
  measuring.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = measuring.measureText("x");
  const middle = (place.top + place.bottom) / 2, [fill, opacity] = colourOf(style.color);
  const isSpaced = /^pre/.test(style.whiteSpace), rise = (up - down) / 2;
  const x = rounded((place.left + place.right) / 2 + rise), y = rounded(place.bottom);
  const at = style.writingMode.startsWith("vertical") // those of our pages read upwards
    ? { x, y, transform: `rotate(-90 ${x} ${y})` } : { x: rounded(place.left), y: rounded(middle + rise) };
  addTo(out.to, "text", {
    ...at, fill, "fill-opacity": opacity,
    "font-size": style.fontSize, "font-weight": style.fontWeight, "font-style": style.fontStyle, "font-family": style.fontFamily,
    style: "white-space: pre",
  }, isSpaced ? text : text.replace(/\s+/g, " "));
  widen(out.box, place);
}

function paintSlider(out, { min, max, value, type }, place) {
  if (type !== "range") return;
  const y = (place.top + place.bottom) / 2, share = (value - min) / (max - min || 1);
  addTo(out.to, "line", { x1: place.left, x2: place.right, y1: y, y2: y, stroke: "#c6ccd3", "stroke-width": 4 });
  addTo(out.to, "circle", { cx: rounded(place.left + share * (place.right - place.left)), cy: y, r: 7, fill: "#0b5cad" });
  widen(out.box, place);
}

function paintImage(out, href, place) {
  addTo(out.to, "image", {
    href, x: rounded(place.left), y: rounded(place.top), width: rounded(place.width), height: rounded(place.height),
    preserveAspectRatio: "none", style: "image-rendering: pixelated",
  });
  widen(out.box, place);
}

function paintCanvas(out, canvas, place) {
  if (!place.width) return;
  const style = getComputedStyle(canvas), below = style.backgroundImage.match(/url\("(data:[^"]+)"\)/);
  paintBox(out, style, place);
  if (below) paintBelow(out, below[1], place);
  paintImage(out, canvas.toDataURL(), place);
}

// The darkened picture below a small map. All maps of a figure have the same one, which is stored once.
function paintBelow(out, href, place) {
  out.stored.image ??= addTo(out.to, "symbol", { id: "below", viewBox: "0 0 1 1", preserveAspectRatio: "none" });
  if (!out.stored.image.childNodes.length) {
    addTo(out.stored.image, "image", { href, width: 1, height: 1, preserveAspectRatio: "none" });
    addTo(out.stored.image, "rect", { width: 1, height: 1, fill: "#000000", "fill-opacity": 0.6 });
  }
  addTo(out.to, "use", { href: "#below", x: rounded(place.left), y: rounded(place.top), width: rounded(place.width), height: rounded(place.height) });
}

// A drawing within the page: a copy with the styles that apply to it.
function paintSvg(out, svg, place) {
  if (!place.width) return;
  const { width, height } = place, view = svg.getAttribute("viewBox");
  const inner = addTo(out.to, "svg", {
    x: rounded(place.left), y: rounded(place.top), width: rounded(width), height: rounded(height), overflow: "visible",
    ...(view ? { viewBox: view, preserveAspectRatio: svg.getAttribute("preserveAspectRatio") ?? "xMidYMid" } : {}),
  });
  for (const child of svg.children) copyShape(inner, child);
  widen(out.box, place);
}

const SHAPES = ["x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "ry", "width", "height", "d", "points", "transform", "dx", "dy", "href", "preserveAspectRatio", "vector-effect"];

function copyShape(to, shape) {
  if (shape.tagName === "title") return void addTo(to, "title", {}, shape.textContent);
  const style = getComputedStyle(shape);
  if (style.display === "none" || style.visibility === "hidden" || shape.matches(".marks, .unsaved")) return;
  const attributes = {};
  for (const name of SHAPES) if (shape.hasAttribute(name)) attributes[name] = shape.getAttribute(name);
  for (const name of PAINT) attributes[name] = style.getPropertyValue(name);
  if (shape.tagName === "circle") attributes.r = style.r;
  for (const name of ["fill", "stroke"]) {
    const [colour, opacity] = colourOf(attributes[name]);
    attributes[name] = colour;
    if (opacity < 1) attributes[`${name}-opacity`] = opacity * Number(attributes[`${name}-opacity`]);
  }
  if (shape.tagName === "image") attributes.style = `image-rendering: ${style.imageRendering}; filter: ${style.filter}`;
  const isText = ["text", "tspan"].includes(shape.tagName);
  if (!isText) for (const name of PAINT.filter((each) => /^(font|text)/.test(each))) delete attributes[name];
  const hasParts = shape.children.length > 0;
  const copy = addTo(to, shape.tagName, attributes, isText && !hasParts ? shape.textContent : null);
  for (const child of shape.children) copyShape(copy, child);
}
