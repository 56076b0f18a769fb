// The merges on the page, before and after another text is typed.
const ladder = () => [...document.querySelectorAll(".rung")].map((rung) => rung.querySelector(".pieces").textContent + "|" + rung.querySelector(".rank").textContent);
const first = ladder(), bytes = document.querySelector(".bytes-line").textContent;
const python = scene.main.spelling;
const own = makeTokenizer(data.live.tokenizers[data.live.streams[0].input.tokenizer]).spelling(scene.main.ids);
type("lower the slowest");
while (waiting.length) waiting.shift()();
choose({ step: 1 });
return [first, bytes, python, own, ladder().length, document.querySelectorAll(".rung.coming").length];
