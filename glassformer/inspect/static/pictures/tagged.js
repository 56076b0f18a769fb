// Sentences with a tag below each word: the predicted one and, where it is wrong, the right one.

pictures.tagged = (place, { sentences }) => {
  for (const { words, tags, predicted, scores } of sentences) {
    const line = add(place, "p", { class: "sentence", dir: isFromRight(words.join("")) ? "rtl" : "ltr" });
    words.forEach((word, n) => {
      const isRight = tags[n] === predicted[n];
      const box = add(line, "span", { class: isRight ? "tagged" : "tagged wrong" });
      add(box, "span", { class: "words", dir: "auto" }, word);
      if (isRight && tags[n] === "O") return;
      const text = isRight ? predicted[n] : `${predicted[n]} ${percent(scores[n], 0)}`;
      add(box, "span", { class: "tag" }, text);
      if (!isRight) add(box, "span", { class: "tag truth" }, tags[n]);
    });
  }
};
pictures.tagged.isWide = true;
