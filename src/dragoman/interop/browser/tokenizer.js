// Dragoman's BPE tokenizer: the ids that dragoman.text.tokenizer gives for a text, and the text that it gives for ids.

export const PAD = 0;
export const START = 1;
export const END = 2;
const FIRST_BYTE = 4; // behind four special tokens; then the 256 bytes
const FIRST_PIECE = FIRST_BYTE + 256;

const SPACE = "\u2581"; // stands for a space inside tokens
export const WHITE_SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/gu;
const BREAKS = /[\t-\r\x1c-\x1f\x85\u2028\u2029]/gu;
const PLANES = Array.from({ length: 17 }, (_, plane) => {
  const last = String.fromCodePoint(plane * 0x10000 + 0xffff);
  return `${String.fromCodePoint(plane * 0x10000 + 0xfffe)}${last}`;
});
const DROPPED = new RegExp(`[\\x00-\\x08\\x0e-\\x1b\\x7f-\\x84\\x86-\\x9f\\ufdd0-\\ufdef${PLANES.join("")}]`, "gu");
const LONE = /[\ud800-\udfff]/gu; // with "u" a pair is one character, so only halves are found
const WORD = new RegExp(`${SPACE}?[\\p{L}\\p{M}]+|${SPACE}?\\p{N}|${SPACE}?[^\\p{L}\\p{M}\\p{N}${SPACE}]|${SPACE}`, "gu");

/** `text` without control characters: line breaks become spaces, others but `slots` go, half characters are U+FFFD. */
export function withoutControls(text, slots = "") {
  const dropped = (control) => (slots.includes(control) ? control : "");
  return text.replace(LONE, "\ufffd").replace(BREAKS, " ").replace(DROPPED, dropped);
}

/** `text` as models see it: composed (NFC), on one line, with single spaces and none at the ends. */
export function normalise(text, slots) {
  const composed = withoutControls(text, slots).replaceAll(SPACE, "_").normalize("NFC");
  return composed.replace(WHITE_SPACE, " ").replace(/^ | $/gu, "");
}

export class Tokenizer {
  /** `spec` is the content of one of Dragoman's files, `slots` stay in texts; ids that are `silent` are never written. */
  constructor({ model }, slots = "", silent = []) {
    this.slots = slots;
    this.ids = new Map(Object.entries(model.vocab));
    this.pieces = [];
    for (const [piece, id] of this.ids) this.pieces[id] = piece;
    this.ranks = new Map(model.merges.map(([left, right], rank) => [`${left}\0${right}`, rank]));
    this.silent = new Set(silent);
    this.words = new Map();
  }

  /** The ids of `text`, without start and end; none for a text of white space. */
  encode(text) {
    const normalised = normalise(text, this.slots);
    if (!normalised) return [];
    const words = (SPACE + normalised.replaceAll(" ", SPACE)).match(WORD);
    return words.flatMap((word) => this.#cut(word));
  }

  /** The ids of one word, kept for the next time. */
  #cut(word) {
    let ids = this.words.get(word);
    if (!ids) {
      if (this.words.size > 50_000) this.words.clear();
      ids = this.#merge([...word]).flatMap((piece) => this.#idsOf(piece));
      this.words.set(word, ids);
    }
    return ids;
  }

  /** Join pieces, first the pair that was learnt first and of equal ones the leftmost, as long as one is known. */
  #merge(pieces) {
    for (;;) {
      let best = Infinity;
      let at = -1;
      for (let i = 0; i + 1 < pieces.length; i++) {
        const rank = this.ranks.get(`${pieces[i]}\0${pieces[i + 1]}`) ?? Infinity;
        if (rank < best) [best, at] = [rank, i];
      }
      if (at < 0) return pieces;
      pieces.splice(at, 2, pieces[at] + pieces[at + 1]);
    }
  }

  /** The id of a piece, or those of the bytes of a character that is not in the vocabulary. */
  #idsOf(piece) {
    const id = this.ids.get(piece);
    if (id !== undefined) return [id];
    return Array.from(new TextEncoder().encode(piece), (byte) => FIRST_BYTE + byte);
  }

  /** The text of `ids`. Bytes that are no UTF-8 become U+FFFD. */
  decode(ids) {
    let text = "";
    let bytes = [];
    for (const id of ids) {
      if (id < FIRST_BYTE || this.silent.has(id)) continue;
      if (id < FIRST_PIECE) {
        bytes.push(id - FIRST_BYTE);
        continue;
      }
      text += characters(bytes) + this.pieces[id].replaceAll(SPACE, " ");
      bytes = [];
    }
    return withoutControls((text + characters(bytes)).replace(/^ /u, ""), this.slots);
  }
}

function characters(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  } catch {
    return "\ufffd".repeat(bytes.length);
  }
}
