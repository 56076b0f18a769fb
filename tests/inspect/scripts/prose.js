// Choices within sentences, and a token that is clicked.
(() => {
  const picks = (name) => [...document.querySelectorAll(`select[aria-label="${name}"]`)];
  const set = (pick, value) => { pick.value = value; pick.dispatchEvent(new Event("input")); };
  set(picks("query token")[0], "5");
  set(picks("layer")[0], "1");
  set(picks("key token")[0], "2");
  const chosen = [state.token, state.layer, state.key, document.querySelector(".thumb.chosen").getAttribute("aria-label")];
  document.querySelectorAll(".chip")[7].click();
  return [chosen, picks("query token").map(({ value }) => value), state.key];
})()
