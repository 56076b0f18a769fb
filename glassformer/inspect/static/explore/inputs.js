// What the pages of `glassformer explore` share: the reader's text or image, and the address.

const PAUSE = 150; // ms after the last keystroke
const MOST_IMAGE = 10e6; // bytes

// The last of many calls, a moment later.
function settled(act) {
  let timer = null;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), PAUSE);
  };
}

const valuesInAddress = () => new URLSearchParams(globalThis.location.hash.slice(1));

// Heads that are switched off: [[1, 2], [0, 3]] ↔ "1.2,0.3".
const headsFrom = (text) => (/^\d+\.\d+(,\d+\.\d+)*$/.test(text ?? "") ? text.split(",").map((each) => each.split(".").map(Number)) : []);
const textOfHeads = (heads) => heads.map((each) => each.join(".")).join(",");

const nameOfModel = ({ name, kind }) => (name === kind ? name : `${name} (${kind})`);

// The box for a text. Not an <input>, which would drop the line breaks.
function addTextBox(place, text, changed) {
  const line = add(place, "label", { class: "ask-text" }, "Text ");
  const box = add(line, "textarea", { rows: 1, spellcheck: "false", dir: "auto" });
  box.value = text;
  box.addEventListener("input", settled(() => changed(box.value)));
  return line;
}

// `changed` gets { image, image_name }: the content in base64, and what the file is called.
function addImageBox(place, changed, failed) {
  const line = add(place, "label", { class: "ask-image" }, "Image ");
  const box = add(line, "input", { type: "file", accept: "image/*" });
  box.addEventListener("change", async () => {
    const [file] = box.files;
    if (!file) return;
    if (file.size > MOST_IMAGE) {
      failed(`${file.name} is larger than ${MOST_IMAGE / 1e6} MB.`);
      box.value = ""; // the last picture stays, which is not that of this file
      return;
    }
    changed({ image: inBase64(new Uint8Array(await file.arrayBuffer())), image_name: file.name });
  });
  return line;
}

function inBase64(bytes) {
  let letters = "";
  for (let start = 0; start < bytes.length; start += 32768) letters += String.fromCharCode(...bytes.subarray(start, start + 32768));
  return btoa(letters);
}
