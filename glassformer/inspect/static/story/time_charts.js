// Charts over the steps of a training. All of them share one axis, on which equal distances are
// equal factors, and one step that is chosen: press or drag on a chart to choose another.

const CHART = { height: 230, left: 52, top: 14, bottom: 40 };

// Steps → places: 0, then logarithmic from the first snapshot on.
function timeScale(steps, most, range) {
  const unit = steps.find((step) => step > 0) ?? 1;
  const shape = (step) => Math.log1p(step / unit), last = shape(most) || 1;
  return (step) => range[0] + (shape(step) / last) * (range[1] - range[0]);
}

// The number of the snapshot that lies nearest to a place on the axis.
function nearestMoment(steps, x, place) {
  const distances = steps.map((step) => Math.abs(x(step) - place));
  return distances.indexOf(Math.min(...distances));
}

// Values of several lines at one side of a chart, moved apart so that none covers another.
function spreadApart(places, least, top, bottom) {
  const order = places.map((_, n) => n).sort((a, b) => places[a] - places[b]), moved = [...places];
  let floor = top;
  for (const n of order) {
    moved[n] = Math.max(moved[n], floor);
    floor = moved[n] + least;
  }
  let ceiling = bottom;
  for (const n of order.reverse()) {
    moved[n] = Math.min(moved[n], ceiling);
    ceiling = moved[n] - least;
  }
  return moved;
}

// Lines are { points: [[step, value], …], label, style }; those with a label have it at their end.
// `letters` keeps room for names that come later.
function drawTimeChart(place, history, { title, lines, domain, format = number, letters: least = 0 }) {
  const named = lines.filter(({ label }) => label);
  const letters = Math.min(14, Math.max(least, ...named.map(({ label }) => visible(label).length)));
  const height = CHART.height, room = 20 + 8 * letters; // for the names
  const width = Math.max(280, Math.min(place.clientWidth || 620, 900));
  const box = { ...CHART, right: width - room, bottom: height - CHART.bottom };
  const svg = add(place, "svg", { width, height, role: "img", "aria-label": title, class: "over-time" });
  const { steps } = history, ends = lines.flatMap(({ points }) => points.map(([step]) => step));
  const x = timeScale(steps, Math.max(1, ...steps, ...ends), [box.left, box.right]);
  const y = scale(domain ?? domainOf(lines.flatMap(({ points }) => points.map(([, value]) => value))), [box.bottom, box.top]);
  drawTimeAxes(svg, steps.length ? steps : [0, Math.max(...ends)], x, y, box, format);
  const drawn = add(svg, "g");
  for (const { points, style } of lines) {
    add(drawn, "path", { class: `line ${style ?? ""}`, d: pathOf(points.map(([step, value]) => [x(step), y(value)])) });
  }
  const ys = spreadApart(named.map(({ points }) => y(points[points.length - 1][1])), 15, box.top, box.bottom);
  named.forEach(({ label, style }, n) => {
    add(svg, "text", { class: `line-name ${style ?? ""}`, x: box.right + 8, y: ys[n] + 4 }, short(visible(label), letters));
  });
  if (!steps.length) return { svg, x, y };
  const cursor = add(svg, "line", { class: "now", y1: box.top - 6, y2: box.bottom });
  const isThere = (event) => choose({ moment: nearestMoment(steps, x, event.clientX - svg.getBoundingClientRect().left) });
  svg.addEventListener("pointerdown", isThere);
  svg.addEventListener("pointermove", (event) => { if (event.buttons) isThere(event); });
  follow(["moment"], () => {
    cursor.setAttribute("x1", x(steps[state.moment]));
    cursor.setAttribute("x2", x(steps[state.moment]));
  });
  return { svg, x, y };
}

function drawTimeAxes(svg, steps, x, y, box, format) {
  const group = add(svg, "g", { class: "axes" });
  for (const tick of ticks(y.domain, Math.max(2, Math.round((box.bottom - box.top) / 45)))) {
    add(group, "line", { class: "grid", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) });
    add(group, "text", { x: box.left - 6, y: y(tick) + 4, "text-anchor": "end" }, format(tick));
  }
  add(group, "line", { class: "tick", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
  let left = Infinity; // labels from the right: the last step is always named
  for (const step of [...steps].reverse()) {
    const text = number(step), half = 3.5 * text.length + 4;
    add(group, "line", { class: "tick", x1: x(step), x2: x(step), y1: box.bottom, y2: box.bottom + 4 });
    if (x(step) + half > left) continue;
    left = x(step) - half;
    add(group, "text", { x: x(step), y: box.bottom + 18, "text-anchor": "middle" }, text);
  }
  add(group, "text", { class: "name", x: (box.left + box.right) / 2, y: box.bottom + 34, "text-anchor": "middle" }, "step (logarithmic)");
}
