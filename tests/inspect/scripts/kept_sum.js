// A sum that is kept, one of its terms, the way back, and Escape.
(() => {
  const title = () => panel().hidden ? null : panel().querySelector(".sum-name").textContent.split(" ")[0];
  const found = [], shares = () => document.querySelector(".shares tr[data-of]");
  shares().click();
  found.push(title());
  document.querySelector(".chip").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  found.push(title());
  panel().querySelector("button.term").click();
  found.push(title());
  [...panel().querySelectorAll("button")].find(({ textContent }) => textContent === "Back").click();
  found.push(title(), looking.isLocked);
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  return [...found, looking.isLocked];
})()
