// Text ↔ ids in the page, as the tokenizer in Python does it, from the data of text/portable.py.
//
//   normalise → cut into words → cut each word into pieces of the vocabulary → ids

const LONGEST_WORD = 48; // bytes of a word whose merges are shown

function makeTokenizer(data) {
  const { pieces, special } = data;
  const added = new Set(data.added), hidden = new Set(Object.values(special));
  const ids = new Map(); // of the pieces that a text can have
  pieces.forEach((piece, id) => { if (piece !== null && !added.has(id)) ids.set(piece, id); });
  const cut = CUTTERS[data.model](data, ids);
  const known = new Map(); // words are encoded once
  const wordsOf = (text) => SPLITS[data.split.type](normalised(text, data.normalizer), data.split);
  const isBytes = data.decoder.type === "bytes";

  function encode(text) {
    const found = [];
    for (const word of wordsOf(text.toWellFormed?.() ?? text)) {
      let own = known.get(word);
      if (own === undefined) {
        own = cut(word);
        if (own.includes(null)) throw unknownError(unknownCharacters(text));
        if (known.size > 20000) known.clear();
        known.set(word, own);
      }
      for (const id of own) found.push(id);
    }
    return found;
  }
  function unknownCharacters(text) {
    const isUnknown = (one) => wordsOf(one).some((word) => cut(word).includes(null));
    return [...new Set(text)].filter(isUnknown);
  }
  // One token as a reader recognises it: " the", "##ing", "<0xE2>".
  function token(id) {
    const piece = pieces[id] ?? null;
    if (piece === null) return `<unused ${id}>`;
    return hidden.has(id) || !isBytes ? piece : readableBytes(bytesOfPiece(piece));
  }
  function decode(chosen) {
    const shown = chosen.filter((id) => !hidden.has(id) && (pieces[id] ?? null) !== null);
    return DECODERS[data.decoder.type](shown.map((id) => pieces[id]), data.decoder);
  }
  const readable = (piece) => readableBytes(bytesOfPiece(piece));
  // The merges of a word, as text/portable.py has them: pieces, which of them is new, its rank.
  function mergesOf(word) {
    if (data.model !== "merges") throw Error(`a ${data.kind} tokenizer does not merge bytes`);
    return Array.from(cut.merging(word), ({ pieces, ...step }) => ({ pieces: pieces.map(readable), ...step }));
  }
  // The pieces of a text before the first merge and after each, word by word.
  function mergeSteps(text) {
    mergesOf(""); // an error if there are none
    const words = wordsOf(text), now = words.map((word) => Array.from(word, readable));
    const merges = words.map(mergesOf), steps = [now.flat()];
    merges.forEach((own, n) => own.forEach(({ pieces }) => {
      now[n] = pieces;
      steps.push(now.flat());
    }));
    return steps;
  }
  // As inspect/story_data.py: the bytes of each token, and the words with their merges.
  function spelling(ids) {
    if (!isBytes) return null;
    const raw = ids.map((id) => (hidden.has(id) || (pieces[id] ?? null) === null ? [] : Array.from(bytesOfPiece(pieces[id]))));
    const found = { bytes: raw, words: [], num_merges: 0 };
    if (data.model !== "merges") return found;
    const starts = new Map();
    let place = 0;
    raw.forEach((own, n) => { if (own.length) starts.set(place, n); place += own.length; });
    place = 0;
    for (const word of wordsOf(new TextDecoder().decode(Uint8Array.from(raw.flat())))) {
      const first = starts.get(place), letters = Array.from(word);
      place += letters.length;
      if (first === undefined || letters.length > LONGEST_WORD) continue;
      const steps = mergesOf(word), last = steps.at(-1)?.pieces ?? [token(ids[first])];
      if (last.every((piece, n) => piece === token(ids[first + n]))) found.words.push({ first, bytes: letters.map(readable), steps });
    }
    return Object.assign(found, { num_merges: data.merges.length / 2 });
  }
  // The parts of a text within which its tokens lie.
  function words(text) {
    return wordsOf(text).map((word) => (isBytes ? readableBytes(bytesOfPiece(word)) : word));
  }
  const { kind } = data, size = pieces.length;
  return { encode, decode, token, words, mergeSteps, spelling, unknownCharacters, special, kind, size };
}

// In quotes; by its number if it would not be seen on its own.
function namedCharacter(one) {
  return /[\p{Cf}\p{M}]/u.test(one) ? `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}` : JSON.stringify(one);
}

function unknownError(characters) {
  const shown = characters.slice(0, 10).map(namedCharacter).join(", ");
  return Object.assign(Error(`the tokenizer has no token for ${shown}`), { characters });
}

// The ids that a model reads for a text. `input` says what is around a text: see inspect/live.py.
function readText(tokenizer, input, text) {
  const parts = input.mask === null ? [text] : text.split(input.mask_name);
  const ids = parts.flatMap((part, n) => [...(n ? [input.mask] : []), ...readPart(tokenizer, input, part)]);
  if (!ids.length && input.if_empty !== null) ids.push(input.if_empty);
  return [...input.before, ...ids, ...input.after];
}

function readPart(tokenizer, input, part) {
  let text = part;
  if (input.is_read_as_a_whole) {
    if (input.carries_blanks && !/^[\p{White_Space}\x1c-\x1f]/u.test(text)) text = ` ${text}`;
    if (tokenizer.kind === "char") {
      const unknown = new Set(tokenizer.unknownCharacters(text));
      text = Array.from(text).filter((one) => !unknown.has(one)).join("");
    }
  }
  return tokenizer.encode(text);
}

// --- normalise ---

function normalised(text, rules) {
  if (rules === null) return text;
  let plain = text;
  if (rules.type === "bert") {
    if (rules.removed) plain = without(plain, rules.removed).replace(/\p{White_Space}/gu, " ");
    if (rules.spread) plain = plain.replace(IDEOGRAPHS, " $& ");
    if (rules.marks) plain = without(plain.normalize("NFD"), rules.marks);
  }
  // Letter by letter: as a whole, JavaScript writes a Σ at the end of a word differently.
  const isLower = rules.type === "lowercase" || rules.lowercase;
  return isLower ? Array.from(plain, (one) => one.toLowerCase()).join("") : plain;
}

const without = (text, ranges) => Array.from(text).filter((one) => !isWithin(one, ranges)).join("");

// Whether a character is in one of the ranges [first, last, first, last, …].
function isWithin(one, ranges) {
  const code = one.codePointAt(0);
  let low = 0, high = ranges.length / 2; // the range, if any, is among those from low to high
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (ranges[2 * middle] <= code) low = middle;
    else high = middle;
  }
  return ranges[2 * low] <= code && code <= ranges[2 * low + 1];
}

const IDEOGRAPHS = new RegExp(
  "[\u4e00-\u9fff\u3400-\u4dbf\\u{20000}-\\u{2a6df}\\u{2a700}-\\u{2b73f}\\u{2b740}-\\u{2b81f}"
  + "\\u{2b920}-\\u{2ceaf}\uf900-\ufaff\\u{2f800}-\\u{2fa1f}]", "gu",
);

// --- cut into words ---

// JavaScript's \s and \w differ from those of the library: its \w has all letters, marks and digits.
const GPT2_WORDS = new RegExp(
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\p{White_Space}\\p{L}\\p{N}]+"
  + "|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+", "gu",
);
const LETTERS = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\u00b2\u00b3\u00b9\u00bc-\u00be";
const PLAIN_WORDS = new RegExp(
  `\\p{Nd}+(?:[.,]\\p{Nd}+)+|[${LETTERS}]+(?:['’-][${LETTERS}]+)*|\n|[^${LETTERS}\\p{White_Space}]`, "gu",
);
const spaceSplit = (text) => text.split(/\p{White_Space}+/u).filter(Boolean);

const SPLITS = {
  bytes: (text) => (text.match(GPT2_WORDS) ?? []).map(pieceOfText),
  characters: (text) => Array.from(text),
  words: (text) => text.match(PLAIN_WORDS) ?? [],
  spaces: spaceSplit,
  bert: (text, { punctuation }) => spaceSplit(text).flatMap((word) => {
    const found = [""];
    for (const one of word) {
      if (isWithin(one, punctuation)) found.push(one, "");
      else found[found.length - 1] += one;
    }
    return found.filter(Boolean);
  }),
};

// --- cut a word into pieces: ids, null where there is none ---

const CUTTERS = {
  whole: ({ unknown }, ids) => (word) => [ids.get(word) ?? unknown],

  // WordPiece: the longest piece, again and again; a word with an unknown rest is wholly unknown.
  longest: ({ unknown, longest }, ids) => (word) => {
    const letters = Array.from(word), found = [];
    if (letters.length > longest) return [unknown];
    for (let start = 0, end; start < letters.length; start = end) {
      const mark = start ? "##" : "";
      for (end = letters.length; end > start; end -= 1) {
        const id = ids.get(mark + letters.slice(start, end).join(""));
        if (id !== undefined && found.push(id)) break;
      }
      if (end === start) return [unknown];
    }
    return found;
  },

  // BPE: the merge that was learned first, again and again.
  merges: ({ merges, whole_first: wholeFirst, pieces }, ids) => {
    const ranks = new Map();
    for (let n = 0; n < merges.length; n += 2) {
      ranks.set(`${pieces[merges[n]]} ${pieces[merges[n + 1]]}`, n); // no piece has a space in it
    }
    function* merging(word) { // each merge: the pieces after it, which of them is new, its rank
      const found = Array.from(word);
      if (wholeFirst && found.length > 1 && ids.has(word)) {
        found.splice(0, found.length, word);
        yield { pieces: found, place: 0, rank: null };
      }
      const rankAt = (n) => ranks.get(`${found[n]} ${found[n + 1]}`) ?? Infinity;
      const order = found.map((_, n) => rankAt(n));
      for (;;) {
        let place = 0;
        for (let n = 1; n < order.length; n += 1) if (order[n] < order[place]) place = n;
        if (!(order[place] < Infinity)) return;
        const rank = order[place] / 2; // pairs of ids
        found.splice(place, 2, found[place] + found[place + 1]);
        order.splice(place, 1);
        order[place] = rankAt(place);
        if (place) order[place - 1] = rankAt(place - 1);
        yield { pieces: found, place, rank };
      }
    }
    const cut = (word) => {
      const found = [...merging(word)].at(-1)?.pieces ?? Array.from(word);
      return found.map((piece) => ids.get(piece)).filter((id) => id !== undefined);
    };
    return Object.assign(cut, { merging });
  },

  // Unigram: the cut with the largest sum of scores; of equal ones, the one with longer pieces first.
  likeliest: ({ scores, pieces }, ids) => {
    const score = new Float64Array(bytesOf(scores).buffer);
    const longest = Math.max(1, ...pieces.map((piece) => piece?.length ?? 0));
    return (word) => {
      const best = [{ sum: 0 }];
      for (let start = 0; start < word.length; start += 1) {
        if (best[start] === undefined) continue; // in the middle of nothing
        for (let end = start + 1; end <= Math.min(word.length, start + longest); end += 1) {
          const id = ids.get(word.slice(start, end));
          if (id === undefined) continue;
          const sum = best[start].sum + score[id];
          if (best[end] === undefined || sum > best[end].sum) best[end] = { sum, start, id };
        }
      }
      if (best[word.length] === undefined) return [null];
      const found = [];
      for (let end = word.length; end > 0; end = best[end].start) found.unshift(best[end].id);
      return found;
    };
  },
};

// --- bytes: GPT-2 writes each as one visible character ---

const CHARACTER_OF_BYTE = (() => {
  let hidden = 0x100;
  const isVisible = (byte) => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isVisible(byte) ? byte : hidden++));
})();
const BYTE_OF_CHARACTER = new Map(CHARACTER_OF_BYTE.map((one, byte) => [one, byte]));

function pieceOfText(text) {
  const bytes = new TextEncoder().encode(text);
  return Array.from(bytes, (byte) => CHARACTER_OF_BYTE[byte]).join("");
}

function bytesOfPiece(piece) {
  const bytes = Array.from(piece, (one) => BYTE_OF_CHARACTER.get(one));
  return bytes.includes(undefined) ? new TextEncoder().encode(piece) : Uint8Array.from(bytes);
}

// Valid UTF-8 as text, and every other byte by its number.
function readableBytes(bytes) {
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let n = 0; n < bytes.length;) {
    const length = bytes[n] < 0x80 ? 1 : bytes[n] < 0xe0 ? 2 : bytes[n] < 0xf0 ? 3 : 4;
    try {
      text += strict.decode(bytes.subarray(n, n + length));
      n += length;
    } catch {
      text += `<0x${bytes[n++].toString(16).toUpperCase().padStart(2, "0")}>`;
    }
  }
  return text;
}

// --- pieces to text ---

const withSpaces = (pieces) => pieces.map((piece, n) => {
  if (n === 0) return piece;
  return piece.startsWith("##") ? piece.slice(2) : ` ${piece}`;
});

const CONTRACTIONS = [
  [" .", "."], [" ?", "?"], [" !", "!"], [" ,", ","], [" ' ", "'"], [" n't", "n't"], [" 'm", "'m"],
  [" do not", " don't"], [" 's", "'s"], [" 've", "'ve"], [" 're", "'re"],
];

const DECODERS = {
  bytes: (pieces) => {
    const bytes = pieces.flatMap((piece) => Array.from(bytesOfPiece(piece)));
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  },
  joined: (pieces) => pieces.join(""),
  spaced: (pieces) => withSpaces(pieces).join("")
    .replace(/ (?=[.,;:!?…%)\]}’”])/g, "").replace(/(?<=[(\[{‘“$£#@]) /g, "").replace(/ ?\n ?/g, "\n"),
  wordpiece: (pieces, { cleanup }) => withSpaces(pieces).map((piece) => {
    return cleanup ? CONTRACTIONS.reduce((text, [from, to]) => text.replaceAll(from, to), piece) : piece;
  }).join(""),
};
