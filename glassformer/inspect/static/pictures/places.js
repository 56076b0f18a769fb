// A few images with panels beside each: the image again, dark where the model did not look. There is
// one panel for each word of a caption, or one for an answer.

const LOOK = 104, UNSEEN = 0.85; // pixels of the longer side; how dark a place without attention is

pictures.places = (place, { scenes }) => {
  for (const { title, image, size, panels } of scenes) {
    const figure = add(place, "figure", { class: "seen" });
    add(figure, "figcaption", { class: "words", dir: "auto" }, title);
    const line = add(figure, "div", { class: "looks" });
    drawLook(line, image, size, null);
    for (const { label, weights } of panels) drawLook(line, image, size, weights, label);
  }
};
pictures.places.isWide = true;

function drawLook(line, image, [height, width], weights, label = "") {
  const scale = LOOK / Math.max(height, width);
  const [high, wide] = [Math.max(1, Math.round(height * scale)), Math.max(1, Math.round(width * scale))];
  const look = add(line, "figure", { class: "look" });
  add(look, "figcaption", { dir: "auto" }, label ? short(visible(label), 16) : "\u00a0");
  const svg = add(look, "svg", { width: wide, height: high, role: "img" });
  const sharp = Math.max(height, width) <= LOOK ? "sharp" : "";
  add(svg, "image", { href: image, width: wide, height: high, preserveAspectRatio: "none", class: sharp });
  if (weights === null) return;
  const most = Math.max(...weights.flat(), 1e-9);
  const cell = { width: wide / weights[0].length, height: high / weights.length };
  let peak = null;
  weights.forEach((row, r) => row.forEach((share, c) => {
    const corner = { x: c * cell.width, y: r * cell.height };
    const dark = (UNSEEN * (1 - share / most)).toFixed(3);
    add(svg, "rect", { class: "unseen", ...corner, ...cell, "fill-opacity": dark });
    if (share === most) peak ??= corner;
  }));
  if (peak) add(svg, "rect", { class: "peak", ...peak, ...cell });
  add(look, "p", { class: "hint" }, percent(most, 0));
}
