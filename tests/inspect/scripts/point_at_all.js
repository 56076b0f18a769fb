// Points at one element of each kind of number, and at a cell of each canvas.
await (async () => {
  for (let n = 0; n < 200 && isLive && !document.querySelector(".ask"); n += 1) await new Promise((done) => setTimeout(done, 20));
  const found = {}, faults = [];
  addEventListener("error", ({ message }) => faults.push(message));
  const said = () => [...panel().querySelectorAll(".sum-name, .sum-line")].map(({ textContent }) => textContent);
  const note = (of) => { found[of] = { said: said(), lit: [...document.querySelectorAll(".lit")].map((each) => each.getAttribute("data-of")), marks: document.querySelectorAll(".mark").length }; };
  const kinds = new Set();
  for (const each of document.querySelectorAll("[data-of]")) {
    const of = each.getAttribute("data-of"), kind = of.replace(/[/\d]+/g, "");
    if (!readRef(of).operation || kinds.has(kind)) continue;
    kinds.add(kind);
    each.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    note(of);
  }
  for (const canvas of document.querySelectorAll("[data-region]")) {
    const box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: box.left + 1, clientY: box.bottom - 1 }));
    note(looking.of);
  }
  return { found, faults };
})()
