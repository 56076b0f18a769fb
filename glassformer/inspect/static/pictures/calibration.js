// A reliability diagram: confidence against accuracy, and how many answers each point stands for.

pictures.calibration = (place, { bins }) => {
  const side = Math.min(340, (place.clientWidth || 420) - 80);
  const box = { left: 58, right: 58 + side, top: 34, bottom: 34 + side };
  const histogram = 64;
  const said = add(place, "p", { class: "said" });
  const svg = add(place, "svg", { width: side + 80, height: side + histogram + 100, role: "img" });
  const x = scale([0, 1], [box.left, box.right]), y = scale([0, 1], [box.bottom, box.top]);
  drawAxes(svg, x, y, box, { x: "confidence", y: "share that is right" }, (value) => percent(value, 0));
  add(svg, "line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) });
  const most = Math.max(...bins.map(({ count }) => count));
  const floor = box.bottom + 48 + histogram;
  add(svg, "text", { class: "name", x: box.left, y: floor + 16 }, `number of answers (up to ${number(most)})`);
  const path = pathOf(bins.map(({ confidence, accuracy }) => [x(confidence), y(accuracy)]));
  add(svg, "path", { class: "curve run-0", d: path });
  for (const bin of bins) {
    const middle = x(bin.confidence);
    add(svg, "line", { class: "whisker", x1: middle, x2: middle, y1: y(bin.low), y2: y(bin.high) });
    add(svg, "circle", { class: "dot run-0", cx: middle, cy: y(bin.accuracy), r: 5 });
    const high = Math.max(1, (histogram - 8) * (bin.count / most));
    add(svg, "rect", { class: "amount", x: middle - 6, width: 12, y: floor - high, height: high });
    const reach = side / 20;
    const target = { x: middle - reach, width: 2 * reach, y: box.top, height: floor - box.top };
    add(svg, "rect", { class: "target", ...target }).addEventListener("pointerenter", () => show(bin));
  }
  function show({ confidence, accuracy, low, high, count }) {
    said.textContent = `${number(count)} answers with about ${percent(confidence)} confidence: `
      + `${percent(accuracy)} are right (95% interval ${percent(low)} to ${percent(high)})`;
  }
  show(bins.reduce((best, bin) => (bin.count > best.count ? bin : best)));
};
