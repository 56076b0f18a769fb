// A score against a number, such as a length: means of bins with their intervals.

pictures.trend = (place, data) => {
  const width = Math.min(720, place.clientWidth || 640), height = 300;
  const box = { left: 58, right: width - 16, top: 34, bottom: height - 50 };
  const said = add(place, "p", { class: "said" });
  const svg = add(place, "svg", { width, height, role: "img" });
  const { points } = data;
  const values = points.flatMap(({ low, high }) => [low, high]);
  const steps = points.map((point) => point.x);
  const x = scale([Math.min(...steps), Math.max(...steps)], [box.left + 8, box.right], data.is_log);
  const y = scale(data.is_share ? [0, 1] : data.most ? [0, data.most] : domainOf(values), [box.bottom, box.top]);
  const format = data.is_share ? (value) => percent(value, 0) : number;
  drawAxes(svg, x, y, box, { x: data.is_log ? `${data.x} (logarithmic)` : data.x, y: data.y }, format);
  const up = points.map((point) => [x(point.x), y(point.high)]);
  const down = points.map((point) => [x(point.x), y(point.low)]).reverse();
  add(svg, "path", { class: "band", d: `${pathOf([...up, ...down])}Z` });
  add(svg, "path", { class: "curve run-0", d: pathOf(points.map((point) => [x(point.x), y(point.y)])) });
  const show = (point) => {
    const value = data.is_share ? percent(point.y) : number(point.y);
    said.textContent = `${data.x} about ${number(Math.round(point.x))}: ${data.y} ${value}, ${number(point.count)} ${data.what}${point.count === 1 ? "" : "s"}`;
  };
  for (const point of points) {
    add(svg, "circle", { class: "dot run-0", cx: x(point.x), cy: y(point.y), r: 4 });
    const target = { x: x(point.x) - 12, width: 24, y: box.top, height: box.bottom - box.top };
    add(svg, "rect", { class: "target", ...target }).addEventListener("pointerenter", () => show(point));
  }
  show(points[points.length - 1]);
};
