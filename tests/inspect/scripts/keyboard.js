// Stops of the Tab key, and what arrow keys reach.
(() => {
  const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const stops = [...document.querySelectorAll("main [tabindex='0'], main button:not([tabindex]), main select, main input, main a")].length;
  const groups = [".chips", ".thumbs tbody", ".lens tbody", ".effects tbody", ".cells", ".tree", ".passage"].map((name) => {
    const box = document.querySelector(name);
    return [box.querySelectorAll("[tabindex='0']").length, box.querySelectorAll("[tabindex='-1']").length > 1];
  });
  document.querySelectorAll(".lens tbody td")[0].focus();
  press("ArrowDown"); press("ArrowRight");
  const lens = document.activeElement.getAttribute("data-of");
  press("Enter");
  const canvas = document.querySelector("canvas[tabindex]");
  canvas.focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) press(key);
  return { stops, groups, lens, token: state.token, cell: looking.of };
})()
