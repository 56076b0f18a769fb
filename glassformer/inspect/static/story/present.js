// One chapter at a time, in large type, for a room of people: the title and the whole model first. Keys
// go on and back, as those of a remote control do; within a tall chapter they scroll first.

const presentedSteps = () => [null, ...[...main.querySelectorAll("section.chapter")].map(({ id }) => id)];
const presentedStep = () => Math.max(0, presentedSteps().indexOf(state.chapter));

function addPresentation() {
  const bar = add(main, "div", { id: "present", role: "group", "aria-label": "presentation" });
  const back = add(bar, "button", { type: "button", "aria-label": "previous" }, "‹");
  const counter = add(bar, "output", { "aria-live": "polite" }), on = add(bar, "button", { type: "button", "aria-label": "next" }, "›");
  const leave = add(bar, "button", { type: "button" }, "Leave");
  back.addEventListener("click", () => presentStep(-1));
  on.addEventListener("click", () => presentStep(1));
  leave.addEventListener("click", leavePresentation);
  const mark = () => {
    const step = presentedStep(), steps = presentedSteps();
    document.body.classList.toggle("presenting", Boolean(state.present));
    document.body.classList.toggle("within", Boolean(state.present) && step > 0);
    bar.hidden = !state.present;
    counter.textContent = `${step + 1} / ${steps.length}`;
    back.disabled = step === 0;
    on.disabled = step === steps.length - 1;
  };
  watch(["present"], () => show(scene)); // which draws for the room that there is now
  watch(["present", "chapter"], mark);
  afterDrawing.push(mark);
  document.addEventListener("keydown", (event) => { // before a number that is kept lets go
    if (event.key === "Escape" && state.present && !looking.isLocked) leavePresentation();
  }, true);
  globalThis.addEventListener("keydown", presentByKey);
}

function addPresentButton(parent) {
  const enter = add(parent, "button", { type: "button", class: "present" }, "Present");
  enter.addEventListener("click", () => choose({ present: 1, chapter: globalThis.scrollY > 0 ? state.chapter : null }));
}

function presentStep(by) {
  const steps = presentedSteps(), step = presentedStep() + by;
  if (step < 0 || step >= steps.length) return;
  if (steps[step] === null) choose({ chapter: null });
  else goToChapter(steps[step]);
  globalThis.scrollTo(0, 0);
}

function leavePresentation() {
  try {
    history.replaceState(null, "", `${location.pathname}${location.hash}`); // without ?present
  } catch { /* as in `writeAddress` */ }
  const { chapter } = state;
  choose({ present: 0 });
  if (chapter !== null) goToChapter(chapter);
}

const ONWARD = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 };

// What a control does with a key comes first; but those of a remote control always turn the chapter.
function presentByKey(event) {
  const by = ONWARD[event.key], { target } = event;
  if (!state.present || by === undefined || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
  const isOfRemote = event.key.startsWith("Page"), isSpaceOnSlider = event.key === " " && target.matches?.("input[type=range]");
  if (!isOfRemote && !isSpaceOnSlider && target.matches?.("input, select, textarea, [data-region]")) return;
  if (event.key === " " && target.matches?.("button, a, [role=button]")) return;
  event.preventDefault();
  const { scrollHeight, clientHeight } = document.documentElement;
  const isMore = by > 0 ? scrollHeight - clientHeight - globalThis.scrollY > 8 : globalThis.scrollY > 8;
  if (isMore && !event.key.startsWith("Arrow")) globalThis.scrollBy(0, by * 0.85 * clientHeight);
  else presentStep(by);
}
