// What a page shows that was opened with an address.
await new Promise((done) => setTimeout(done, 600));
return {
  text: box.value, tokens: tokens(), off: scene.silent, state, at: scrollY > 500,
  said: document.querySelector(".warning").textContent, p: scene.predictions.at(-1).options[0].probability,
};
