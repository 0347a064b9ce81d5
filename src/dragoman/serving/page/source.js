// The text field, and under it its mirror: the same text in the same place, on which words can be marked.

import { make, named } from "./elements.js";
import { say } from "./messages.js";
import { length, pieces } from "./text.js";

/** Characters up to which a text is shown large. */
const SHORT = 240;

/**
 * A field that grows with its text, so that nothing in it scrolls and the mirror cannot slip.
 *
 * The mirror and the field lie in one cell of a grid with one typography; the mirror, which is an ordinary block,
 * decides the height of both. Words of the mirror are found under the pointer although the field is above it.
 */
export class SourceField {
  #limit = Infinity;

  constructor({ field, mirror, counter, changed }) {
    this.field = field;
    this.mirror = mirror;
    this.counter = counter;
    this.spans = new Map();
    field.addEventListener("input", ({ isComposing }) => {
      this.refresh();
      if (!isComposing) changed(this.text); // what an input method has half written is no text yet
    });
    field.addEventListener("compositionend", () => changed(this.text));
  }

  get text() {
    return this.field.value.replaceAll("\r\n", "\n");
  }

  set text(text) {
    this.field.value = text;
    this.refresh();
  }

  /** How many characters the service takes. */
  set limit(limit) {
    this.#limit = limit;
    this.refresh();
  }

  get tooLong() {
    return length(this.text) > this.#limit;
  }

  /** The mirror and the counter follow the text. */
  refresh() {
    const n = length(this.text);
    this.mirror.replaceChildren(`${this.text}\n`);
    this.mirror.classList.toggle("short", n <= SHORT);
    this.field.classList.toggle("short", n <= SHORT);
    this.field.setAttribute("aria-invalid", String(this.tooLong));
    this.counter.classList.toggle("over", this.tooLong);
    this.counter.textContent = Number.isFinite(this.#limit)
      ? say("counter", { n, limit: this.#limit })
      : String(n);
  }

  /** Puts sentences and words into the mirror, where the lines are those of the text. */
  mark(lines) {
    if (lines.map((line) => line.source).join("\n") !== this.text) return;
    const content = lines.flatMap((line, i) => [
      make("span", { className: "line", data: { line: i } }, ...this.#sentences(line)),
      "\n",
    ]);
    this.mirror.replaceChildren(...content);
  }

  #sentences(line) {
    const sentences = line.sentences.map(({ start, end }) => [start, end]);
    let k = -1;
    return pieces(line.source, sentences).map(({ text, span }) => {
      if (span === null) return text;
      k = sentences.findIndex(([start], i) => i > k && start === span[0]);
      return make("span", { className: "sentence", data: { sentence: k } }, ...this.#words(text, line.sentences[k]));
    });
  }

  #words(text, sentence) {
    const linked = new Map((sentence.links ?? []).map(({ source }) => [source[0], source]));
    const spans = [...linked.values()].sort(([one], [other]) => one - other);
    return pieces(text, spans).map(({ text: piece, span }) =>
      span === null
        ? piece
        : make("span", { className: "word", textContent: piece, data: { start: span[0], end: span[1] } }),
    );
  }

  /** The word of the mirror under this point of the window, or its sentence. */
  under(x, y) {
    const there = document.elementsFromPoint(x, y).filter((element) => this.mirror.contains(element));
    return there.find((element) => element.matches(".word")) ?? there.find((e) => e.matches(".sentence"));
  }

  /** The word of the mirror that the caret is in. */
  atCaret() {
    const before = length(this.text.slice(0, this.field.selectionStart));
    let at = 0;
    for (const line of this.mirror.querySelectorAll(".line")) {
      const end = at + length(line.textContent);
      if (before <= end) return wordAt(line, before - at);
      at = end + 1;
    }
    return null;
  }
}

function wordAt(line, offset) {
  let at = 0;
  const walk = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const end = at + length(walk.currentNode.data);
    const word = walk.currentNode.parentElement.closest(".word");
    if (word && at <= offset && offset <= end) return word;
    at = end;
  }
  return null;
}

/** The counter of the text to translate. */
export function translationField(changed) {
  const [field, mirror, counter] = ["source", "mirror", "counter"].map(named);
  return new SourceField({ field, mirror, counter, changed });
}
