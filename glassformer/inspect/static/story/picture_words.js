// Captions: the words and the picture. A word lights the places that it looked at; a place colours the
// words that looked there.

chapters.push({
  id: "words",
  title: "Words and the picture",
  note: "Before it writes a word, the model looks at the picture. Point at a word to see where; point at the picture to see which words looked there. A click keeps the choice, and the chapters on words follow it.",
  isShown: (scene) => Boolean(scene.main.cross && sourceOf(scene)?.picture),
  draw(place, scene) {
    const { picture } = sourceOf(scene), layers = scene.main.cross;
    const shape = layers[0].weights.shape, words = scene.predictions.map(({ actual }) => actual);
    const chosen = { layer: null, head: null }; // null: the mean of all
    const word = () => Math.min(state.token, words.length - 1); // written after the chosen token
    useImage(place, "--picture", picture.image);
    const controls = add(place, "div", { class: "controls" });
    const line = add(place, "div", { class: "words-of", role: "group", "aria-label": "words of the caption" });
    const said = add(place, "p", { class: "said", "aria-live": "polite" });
    const row = add(place, "div", { class: isStrip(picture) ? "pair stacked" : "pair" });
    let weights = wordWeights(scene.main, chosen), keptSpot = null; // instead of the word
    const buttons = words.map((name, number) => {
      const button = add(line, "button", { type: "button", class: "word", dir: "auto" });
      const fill = add(button, "span", { class: "share-of" });
      add(button, "span", {}, short(visible(name)));
      button.addEventListener("pointerenter", () => showWord(number));
      for (const kind of ["focus", "click", "pointerup"]) button.addEventListener(kind, () => keepWord(number)); // a finger that slid here does not click
      return { button, fill };
    });
    line.addEventListener("pointerleave", () => showKept());
    line.addEventListener("pointerdown", ({ target, pointerId }) => target.releasePointerCapture(pointerId)); // a finger slides from word to word
    rove(line, buttons.map(({ button }) => button));
    const box = addFigure(row, { name: "Where a word looked", caption: "Colours go from 0 to the largest weight of the word, whose place has a white frame." });
    const drawn = drawPicture(box, picture, "where the word looked; arrow keys choose a place", {
      most: 420, isGrey: true,
      act: { point: (spot) => showPlace(spot), leave: () => showKept(), choose: (spot) => keepSpot(spot), current: () => keptSpot ?? -1 },
    });
    drawn.scale = add(box, "div");
    const thumbs = layers.length * shape[0] > 1 ? drawWordThumbs(add(row, "div", { class: "heads" }), scene.main, picture, (layer, head) => {
      Object.assign(chosen, { layer, head });
      renew();
    }) : null;

    function showWord(number) {
      const looked = weights[number], best = looked.indexOf(Math.max(...looked));
      lightUp(drawn, looked);
      drawn.image.classList.toggle("dim", true);
      drawn.frame([best], "of-key");
      drawn.frame([], "of-query");
      buttons.forEach(({ button, fill }, each) => {
        button.classList.toggle("chosen", each === number);
        button.setAttribute("aria-pressed", each === number);
        fill.style.opacity = 0;
      });
      drawn.scale.textContent = "";
      addHeatScale(drawn.scale, looked[best]);
      thumbs?.show(number, chosen);
      said.textContent = `${quoted(words[number])} looked most at row ${Math.floor(best / drawn.columns) + 1}, column ${(best % drawn.columns) + 1}: ${percent(looked[best])}`;
    }

    function showPlace(spot) {
      const shares = weights.map((looked) => looked[spot]), most = Math.max(...shares, 1e-9);
      drawn.cells.forEach((cell) => cell.setAttribute("fill-opacity", 0));
      drawn.numberAt = null;
      drawn.image.classList.toggle("dim", false); // nothing is lit: show it as it is
      drawn.frame([spot], "of-query");
      drawn.frame([], "of-key");
      drawn.scale.textContent = "";
      buttons.forEach(({ button, fill }, each) => {
        button.classList.toggle("chosen", false);
        button.setAttribute("aria-pressed", false);
        fill.style.opacity = 0.55 * (shares[each] / most);
      });
      const order = shares.map((share, word) => ({ share, word })).sort((a, b) => b.share - a.share).slice(0, 3);
      said.textContent = `Row ${Math.floor(spot / drawn.columns) + 1}, column ${(spot % drawn.columns) + 1}: looked at most by ${order.map(({ share, word }) => `${quoted(words[word])} ${percent(share)}`).join(", ")}`;
    }

    function showKept() {
      if (keptSpot !== null) showPlace(keptSpot);
      else showWord(word());
    }

    function keepSpot(spot) {
      keptSpot = spot;
      showKept();
    }

    function keepWord(number) {
      choose({ token: number, key: null });
      keepSpot(null); // the same word may have been chosen before
    }

    function renew() {
      weights = wordWeights(scene.main, chosen);
      showKept();
    }

    const numbers = (count) => [["", "mean of all"], ...Array.from({ length: count }, (_, n) => [String(n), String(n)])];
    const pick = (name) => (value) => { chosen[name] = value === "" ? null : Number(value); renew(); };
    if (layers.length > 1) addChoice(controls, "layer", numbers(layers.length), "", pick("layer"));
    if (shape[0] > 1) addChoice(controls, "head", numbers(shape[0]), "", pick("head"));
    follow(["token"], () => keepSpot(null));
  },
});

// How much each word looked at each place, [word][place]: the mean over the chosen layers and heads.
function wordWeights(stream, { layer, head }) {
  const layers = stream.cross.map((_, n) => n).filter((n) => layer === null || n === layer);
  const heads = Array.from({ length: stream.cross[0].weights.shape[0] }, (_, n) => n).filter((n) => head === null || n === head);
  const all = layers.flatMap((l) => heads.map((h) => crossWeightsOf(stream, l, h)));
  return all[0].map((row, word) => row.map((_, spot) => all.reduce((sum, rows) => sum + rows[word][spot], 0) / all.length));
}

// The word that looked at one place more than any other word did.
function clearest(weights) {
  const peaks = weights.map((looked) => Math.max(...looked));
  return peaks.indexOf(Math.max(...peaks));
}

// Every layer and head, as the shown word looks.
function drawWordThumbs(place, stream, picture, picked) {
  const heads = stream.cross[0].weights.shape[0];
  const box = addFigure(place, { name: "Where a word looked, by head", caption: `Rows: layers; columns: heads; all for the word that is shown. ${THUMB_RULE} Click a map to see it alone, and again for the mean of all.` });
  const table = add(add(box, "div", { class: "scroll" }), "table", { class: "thumbs over-picture" });
  const head = add(add(table, "thead"), "tr");
  add(head, "td", {}, "");
  for (let n = 0; n < heads; n += 1) add(head, "th", { scope: "col" }, String(n));
  const body = add(table, "tbody"), size = drawnSize(picture.size, 64);
  let shown = { layer: null, head: null };
  const thumbs = stream.cross.flatMap((_, layer) => {
    const line = add(body, "tr");
    add(line, "th", { scope: "row" }, String(layer));
    return Array.from({ length: heads }, (_, number) => {
      const isShown = () => shown.layer === layer && shown.head === number;
      const thumb = addPlaceThumb(add(line, "td"), picture.grid, size, `layer ${layer}, head ${number}`, () => (isShown() ? picked(null, null) : picked(layer, number)));
      return { ...thumb, rows: crossWeightsOf(stream, layer, number), isShown };
    });
  });
  return {
    show(word, chosen) {
      shown = { ...chosen };
      for (const thumb of thumbs) {
        thumb.paint(thumb.rows[word]);
        thumb.button.classList.toggle("chosen", thumb.isShown());
      }
    },
  };
}
