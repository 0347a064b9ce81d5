// A text is translated line by line: a line that has not changed keeps its translation, and what was chosen in it.

import { WITHOUT_SPACES, slice } from "./text.js";

/** How many translated lines are remembered. */
const MOST_REMEMBERED = 500;

/**
 * A line of the source with its translation, sentence by sentence.
 *
 * A sentence is {start, end, source, before, text, links, words, state, chosen}: where it stands in the line,
 * the sentence, what stands between the translation before and its own, its translation, the links between
 * words, the words' probabilities; "waiting" or "done"; whether a person chose the translation.
 */
export class Line {
  constructor(source, previous = null) {
    this.source = source;
    this.sentences = [];
    this.after = "";
    this.done = source.trim() === "";
    const before = previous?.sentences.length ? previous : previous?.previous;
    this.previous = this.done ? null : (before ?? null);
  }

  /** The translation, as far as it is there. */
  get text() {
    return this.sentences.map(({ before, text }) => before + text).join("") + this.after;
  }

  /** The line as it was first translated, for another place. */
  copy() {
    const line = new Line(this.source);
    line.sentences = this.sentences.map((sentence) => ({ ...sentence }));
    line.after = this.after;
    line.done = this.done;
    return line;
  }

  /** The sentences that the service found. What the line said before stays to be seen until its turn comes. */
  begin(found, target) {
    const old = this.previous?.sentences ?? [];
    let end = 0;
    this.sentences = found.map(({ source_start, source_end, source }, k) => {
      const gap = slice(this.source, end, source_start);
      end = source_end;
      const same = old.find((sentence) => sentence.source === source && sentence.state === "done");
      const rest = same
        ? { ...same }
        : { text: old[k]?.text ?? "", links: null, words: null, state: "waiting", chosen: false };
      const before = WITHOUT_SPACES.has(target) ? gap.trim() : gap;
      return { ...rest, start: source_start, end: source_end, source, before };
    });
    this.previous = null;
  }

  /** The translation of one sentence. What a person chose stays. */
  put(k, { text, links, words }) {
    const sentence = this.sentences[k];
    if (!sentence.chosen) Object.assign(sentence, { text, links, words, state: "done" });
  }

  /** The whole translation, which alone says what stands between its sentences. */
  finish({ text, sentences }) {
    let end = 0;
    sentences.forEach((found, k) => {
      this.put(k, found);
      this.sentences[k].before = slice(text, end, found.start);
      end = found.end;
    });
    this.after = slice(text, end);
    this.done = true;
  }
}

/** The lines of a text, made from those that were there and those that were translated before. */
export class Lines {
  #remembered = new Map();
  all = [];

  /** The lines of `text`, in the direction that `key` names; those still to be translated are not `done`. */
  become(text, key) {
    const sources = text.split("\n");
    const there = new Map();
    for (const line of key === this.key ? this.all : []) {
      if (!line.done || !line.source.trim()) continue;
      there.set(line.source, [...(there.get(line.source) ?? []), line]);
    }
    const old = this.all;
    this.key = key;
    this.all = sources.map((source, i) => {
      const same = there.get(source)?.shift() ?? this.#remembered.get(key + source)?.copy();
      return same ?? new Line(source, old[i]);
    });
    return this.all.filter((line) => !line.done);
  }

  /** Remembers a finished line, and forgets the oldest. */
  remember(line) {
    this.#remembered.set(this.key + line.source, line.copy());
    for (const first of this.#remembered.keys()) {
      if (this.#remembered.size <= MOST_REMEMBERED) break;
      this.#remembered.delete(first);
    }
  }

  /** The translation of the whole text. */
  get text() {
    return this.all.map((line) => line.text).join("\n");
  }
}
