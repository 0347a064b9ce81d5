// What the model reads of a text, and how its answer is written: the list that dragoman.text.transformations interprets.

import { WHITE_SPACE, withoutControls } from "./tokenizer.js";

const MIN_TITLE = 4; // words of a text in title case, at least
const SENTENCE_END = /[.!?…][\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000][^\p{L}\p{N}_]*$/u;

const WORD = "\\p{L}\\p{N}_"; // what Python's \w is
const SPACE = WHITE_SPACE.source.slice(1, -2);
const BORDER = `(?:(?<=[${WORD}])(?![${WORD}])|(?<![${WORD}])(?=[${WORD}]))`;

/** A regular expression of Python's re, with DOTALL, as one of JavaScript: its \w, \s, \d and \b know Unicode. */
export function expression(python) {
  const either = (letters) => letters.replace(/[a-z]/gu, (letter) => `[${letter}${letter.toUpperCase()}]`);
  let inside = false;
  const pattern = python
    .replace(/\(\?i:(.*?)\)/gu, (_, words) => `(?:${either(words)})`)
    .replace(/\[\^\\W([^\]]*)\]/gu, (_, but) => `(?:(?![${but}])\\w)`)
    .replace(/\\.|[[\]]/gsu, (token) => {
      if (token === "[" || token === "]") inside = token === "[";
      if (token === "\\d") return "\\p{Nd}";
      if (token === "\\b") return BORDER;
      if (token === "\\w" || token === "\\s") {
        const members = token === "\\w" ? WORD : SPACE;
        return inside ? members : `[${members}]`;
      }
      if (token === "\\W") return `[^${WORD}]`;
      return /^\\[^\w^$\\.*+?()[\]{}|/-]/u.test(token) ? token.slice(1) : token;
    });
  return new RegExp(pattern, "gsu");
}

export class Transformations {
  /** `data` is in the settings of an export, `list` of it that of a language; `encode` gives the tokens of a word. */
  constructor({ word, letter, carried, titles }, list, encode) {
    [this.word, this.carried] = [word, carried].map(expression);
    this.meet = new RegExp(`^${expression(letter).source.repeat(2)}`, "su");
    this.titles = titles; // capitals that a word begins with, where they are not those of a whole word
    this.encode = encode;
    const kinds = Object.fromEntries(list.map((one) => [one.kind, one]));
    this.dotless = kinds.case?.dotless; // whether the capitals of i and ı are İ and I: source, target
    this.slots = kinds.slots?.tokens ?? "";
  }

  /** What the model reads, and what its answer gets back. */
  read(text) {
    const [usual, casing] = this.dotless ? this.#usualCase(text) : [text, ""];
    if (!this.slots) return { text: usual, casing, spans: [] };
    const found = new Set(Array.from(usual.matchAll(this.carried), ([span]) => span));
    const spans = [...found].slice(0, this.slots.length);
    const slotted = withoutControls(usual).replace(this.carried, (span) => this.slots[spans.indexOf(span)] ?? span);
    return { text: slotted, casing, spans };
  }

  /** The answer of the model as it is written for the text that it was read of. */
  written(answer, { casing, spans }) {
    const cased = this.#inCasing(spans.length ? answer : withoutControls(answer), casing);
    return spans.length ? this.#withoutSlots(cased, spans) : cased;
  }

  #usualCase(text) {
    const parts = text.split(WHITE_SPACE).filter(Boolean);
    if (2 * parts.filter((part) => /^\p{Lowercase}/u.test(part)).length > parts.length) return [text, ""];
    const composed = text.normalize("NFC");
    const words = composed.replace(this.carried, " ").match(this.word) ?? [];
    const letters = [...words.join("")].filter((c) => /\p{L}/u.test(c) && [...c.toUpperCase()].length === 1);
    if (letters.length < 2 || letters.some((c) => c.toLowerCase() === c.toUpperCase())) return [text, ""];
    const capitals = letters.every((c) => c === c.toUpperCase());
    const small = words.some((word) => first(word) === first(word).toLowerCase());
    if (!capitals && (words.length < MIN_TITLE || small)) return [text, ""];
    const [usual, nChanged] = this.#usual(composed);
    if (capitals) return nChanged ? [usual, "capitals"] : [text, ""];
    return 2 * nChanged >= words.length ? [usual, "title"] : [text, ""];
  }

  /** `text` with each word in the fewest and most frequent tokens, and how many words that changes. */
  #usual(text) {
    const [dotless] = this.dotless;
    const bestOf = new Map();
    for (const word of text.match(this.word)) {
      const low = (dotless ? word.replaceAll("İ", "i").replaceAll("I", "ı") : word).toLowerCase();
      bestOf.set(word, this.#best([low, this.#withCapital(low, dotless), word]));
    }
    let nChanged = 0;
    const change = (part) => {
      const start = text.startsWith(part) ? part.search(this.word) : -1;
      return part.replace(this.word, (word, at) => {
        const before = [...part.slice(Math.max(0, at - 18), at)].slice(-9).join("");
        let best = bestOf.get(word) ?? word;
        if (at === start || SENTENCE_END.test(before)) best = this.#withCapital(best, dotless);
        nChanged += best !== word;
        return best;
      });
    };
    return [this.#outside(change, text), nChanged];
  }

  #best(forms) {
    const ranks = forms.map((form) => {
      const ids = this.encode(form);
      return [ids.length, Math.max(0, ...ids)];
    });
    let best = 0;
    ranks.forEach(([n, highest], i) => {
      if (n < ranks[best][0] || (n === ranks[best][0] && highest < ranks[best][1])) best = i;
    });
    return forms[best];
  }

  #inCasing(text, casing) {
    if (!casing) return text;
    const dotless = this.dotless[1];
    const titled = (part) => part.replace(this.word, (word) => this.#withCapital(word, dotless));
    return this.#outside(casing === "title" ? titled : (part) => upper(part, dotless), text);
  }

  #withCapital(word, dotless) {
    const letter = first(word);
    return (letter === "i" ? upper(letter, dotless) : (this.titles[letter] ?? letter.toUpperCase())) + word.slice(letter.length);
  }

  /** `text` with `change` made between what is carried over. */
  #outside(change, text) {
    let [changed, position] = ["", 0];
    for (const { 0: span, index } of text.matchAll(this.carried)) {
      changed += change(text.slice(position, index)) + span;
      position = index + span.length;
    }
    return changed + change(text.slice(position));
  }

  /** The spans in place of their slots, nothing in place of others; a space between a span and a letter or digit. */
  #withoutSlots(text, spans) {
    return text.split(new RegExp(`([${this.slots}])`, "u")).reduce((together, piece) => {
      const at = piece ? this.slots.indexOf(piece) : -1;
      const next = at < 0 ? piece : (spans[at] ?? "");
      return together + (this.meet.test(last(together) + first(next)) ? " " : "") + next;
    });
  }
}

const first = (text) => (text ? String.fromCodePoint(text.codePointAt(0)) : "");
const last = (text) => [...text.slice(-2)].at(-1) ?? "";
const upper = (text, dotless) => (dotless ? text.replaceAll("i", "İ") : text).toUpperCase();
