// From numbers to places on a chart, and round numbers for its axes.

function scale(domain, range, isLog = false) {
  const shape = isLog ? Math.log : (value) => value;
  const [first, last] = domain.map(shape);
  const length = last - first || 1;
  const place = (value) => range[0] + ((shape(value) - first) / length) * (range[1] - range[0]);
  place.domain = domain;
  place.isLog = isLog;
  return place;
}

// A domain with a little room around the values; never empty.
function domainOf(values) {
  const low = Math.min(...values), high = Math.max(...values);
  const room = (high - low) * 0.05 || Math.abs(low) * 0.1 || 1;
  return [low - room, high + room];
}

// About `count` round numbers within the domain.
function ticks([low, high], count = 5) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) {
    found.push(Number((n * step).toPrecision(12)));
  }
  return found;
}

// Powers of ten and, where there are few, their doubles and halves.
function logTicks([low, high]) {
  const found = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const each of [1, 2, 5]) found.push(each * power);
  }
  const inside = found.filter((each) => each >= low * 0.999 && each <= high * 1.001);
  const tens = inside.filter((each) => Number.isInteger(Math.log10(each)));
  return inside.length > 7 && tens.length > 1 ? tens : inside;
}

// Both axes of a chart in the box from (left, top) to (right, bottom), with names.
function drawAxes(svg, x, y, box, names, format = number) {
  const { left, right, top, bottom } = box;
  const group = add(svg, "g", { class: "axes" });
  for (const tick of ticks(y.domain, Math.max(2, Math.round((bottom - top) / 45)))) {
    const place = y(tick);
    add(group, "line", { class: "grid", x1: left, x2: right, y1: place, y2: place });
    add(group, "text", { x: left - 6, y: place + 4, "text-anchor": "end" }, format(tick));
  }
  const most = Math.max(2, Math.round((right - left) / (names.every ?? 90)));
  let last = -Infinity;
  for (const tick of x.isLog ? logTicks(x.domain) : ticks(x.domain, most)) {
    const place = x(tick), text = number(tick);
    if (place - last < 14 + 7 * text.length) continue; // the labels would touch
    last = place;
    add(group, "line", { class: "tick", x1: place, x2: place, y1: bottom, y2: bottom + 4 });
    add(group, "text", { x: place, y: bottom + 18, "text-anchor": "middle" }, text);
  }
  add(group, "line", { class: "tick", x1: left, x2: right, y1: bottom, y2: bottom });
  const middle = (left + right) / 2;
  add(group, "text", { class: "name", x: middle, y: bottom + 36, "text-anchor": "middle" }, names.x);
  if (names.y) add(group, "text", { class: "name", x: left - 44, y: top - 10 }, names.y);
}

// A path through points [x, y].
const pathOf = (points) => points.map(([x, y], n) => `${n ? "L" : "M"}${x} ${y}`).join("");
