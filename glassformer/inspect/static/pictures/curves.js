// Learning curves: one panel for each measure, all runs in it, one step chosen in all of them.

const PANEL = { height: 220, left: 58, top: 30, bottom: 46, right: 14 };

// val_cider_d → CIDEr-D
const NAMES_OF_SCORES = [[/\bf1\b/, "F1"], [/\bbleu\b/, "BLEU"], [/\bcider d\b/, "CIDEr-D"], [/\bchrf\b/, "chrF"]];
const inWords = (column) => NAMES_OF_SCORES.reduce((text, [found, name]) => text.replace(found, name), column.replace("val_", "").replaceAll("_", " "));

// The panels: losses together, then the other scores, then the learning rate.
function panelsOf(runs) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.metrics)))];
  const has = (name) => names.includes(name);
  const panels = [{ name: "loss", columns: ["train_loss", "val_loss"].filter(has) }];
  for (const name of names) {
    const isOther = name.startsWith("val_") && name !== "val_loss";
    if (isOther) panels.push({ name: inWords(name), columns: [name] });
  }
  panels.push({ name: "learning rate", columns: ["learning_rate"].filter(has) });
  return panels.filter(({ columns }) => columns.length);
}

// The points of a column where it has a value.
function seriesOf(run, column) {
  const steps = run.metrics.step ?? [];
  return (run.metrics[column] ?? [])
    .map((value, n) => ({ step: steps[n], value }))
    .filter(({ value }) => value !== null);
}

function nearest(points, step) {
  return points.reduce((best, point) =>
    Math.abs(point.step - step) < Math.abs(best.step - step) ? point : best,
  );
}

function drawPanel(place, panel, runs, state, width) {
  const figure = add(place, "figure", { class: "panel" });
  figure.style.width = `${width}px`;
  const caption = add(figure, "figcaption");
  add(caption, "strong", {}, panel.name);
  const readout = add(caption, "span", { class: "readout" });
  const svg = add(figure, "svg", { width, height: PANEL.height, role: "img", tabindex: 0 });
  const all = runs.flatMap((run, number) =>
    panel.columns.map((column) => ({
      run, number, points: seriesOf(run, column), isTraining: column === "train_loss",
    })),
  ).filter(({ points }) => points.length);
  const steps = runs.flatMap((run) => run.metrics.step);
  const most = Math.max(...steps), least = Math.min(...steps);
  const values = all.flatMap(({ points }) => points.map(({ value }) => value));
  const box = { ...PANEL, right: width - PANEL.right, bottom: PANEL.height - PANEL.bottom };
  const x = scale([state.isLog ? least : 0, most], [box.left, box.right], state.isLog);
  const y = scale(domainOf(values), [box.bottom, box.top - 12]);
  drawAxes(svg, x, y, box, { x: state.isLog ? "step (logarithmic)" : "step" });
  for (const run of runs.filter(({ best }) => best)) {
    const middle = x(run.best.step);
    add(svg, "line", { class: "best", x1: middle, x2: middle, y1: box.top - 12, y2: box.bottom });
  }
  const isScore = panel.columns.some((column) => column.startsWith("val_"));
  for (const { number, points, isTraining } of all) {
    const style = `curve run-${number % 6}${isTraining ? " training" : ""}`;
    const places = points.map(({ step, value }) => [x(step), y(value)]);
    add(svg, "path", { class: style, d: pathOf(places) });
    if (isScore && !isTraining && places.length < 25) {
      for (const [cx, cy] of places) add(svg, "circle", { class: `dot run-${number % 6}`, cx, cy, r: 2.5 });
    }
  }
  const line = add(svg, "line", { class: "cursor", y1: box.top - 12, y2: box.bottom, visibility: "hidden" });
  return { svg, x, box, show: (step) => showStep(step, all, runs, { x, line, readout, panel }) };
}

function showStep(step, all, runs, { x, line, readout, panel }) {
  line.setAttribute("visibility", "visible");
  line.setAttribute("x1", x(step));
  line.setAttribute("x2", x(step));
  const reached = all.filter(({ run }) => step <= Math.max(...run.metrics.step));
  readout.textContent = reached.map(({ run, points, isTraining }) => {
    const kind = panel.columns.length > 1 ? (isTraining ? "training " : "validation ") : "";
    const name = runs.length > 1 ? `${short(run.name, 28)} ` : "";
    return `${name}${kind}${number(nearest(points, step).value)}`;
  }).join(" · ");
}

pictures.curves = (place, data) => {
  const state = (data.state ??= { isLog: false, step: null });
  const runs = data.runs.filter((run) => (run.metrics.step ?? []).length);
  const controls = add(place, "p", { class: "controls" });
  const legend = add(place, "p", { class: "legend" });
  if (runs.length > 1) {
    runs.forEach((run, n) => add(legend, "span", { class: `key run-${n % 6}` }, run.name));
  }
  add(legend, "span", { class: "hint" }, "thin line: training; thick line: validation; dotted: best step");
  const said = add(place, "p", { class: "said" });
  const grid = add(place, "div", { class: "panels" });
  const steps = [...new Set(runs.flatMap((run) => run.metrics.step))].sort((a, b) => a - b);
  const room = place.clientWidth || 640;
  const columns = Math.max(1, Math.min(3, Math.floor(room / 340)));
  const width = Math.floor((room - 20 * (columns - 1)) / columns);
  const panels = panelsOf(runs).map((panel) => drawPanel(grid, panel, runs, state, width));

  function show(step) {
    state.step = step;
    said.textContent = `Step ${number(step)}`;
    for (const panel of panels) panel.show(step);
  }

  addControl(controls, "Logarithmic steps", { type: "checkbox", ...(state.isLog ? { checked: "" } : {}) }, (box) => {
    state.isLog = box.checked;
    place.textContent = "";
    pictures.curves(place, data);
  });
  for (const { svg, x } of panels) {
    svg.addEventListener("pointermove", (event) => {
      const at = event.clientX - svg.getBoundingClientRect().left;
      show(steps.reduce((best, step) => (Math.abs(x(step) - at) < Math.abs(x(best) - at) ? step : best)));
    });
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move) return;
      event.preventDefault();
      const next = steps.indexOf(state.step) + move;
      show(steps[Math.max(0, Math.min(steps.length - 1, next))]);
    });
  }
  show(state.step ?? runs.find(({ best }) => best)?.best.step ?? steps[steps.length - 1]);
};
pictures.curves.isWide = true;
