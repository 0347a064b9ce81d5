// Which words belong together: marked on both sides, under the pointer, at the caret and at the focus.

import { overlap } from "./text.js";

/**
 * Marks the words linked with the one pointed at. `lines()` gives the lines that both sides show.
 *
 * Both sides have the same structure: .line[data-line] .sentence[data-sentence] .word[data-start][data-end].
 */
export class Alignment {
  #marked = [];

  constructor(source, output, lines) {
    this.source = source;
    this.output = output;
    this.lines = lines;
    const field = source.field;
    field.addEventListener("pointermove", ({ clientX, clientY }) => this.#mark(source.under(clientX, clientY)));
    field.addEventListener("pointerleave", () => this.clear());
    output.root.addEventListener("pointerover", ({ target }) => this.#mark(target.closest(".word, .sentence")));
    output.root.addEventListener("pointerleave", () => this.clear());
    output.root.addEventListener("focusin", ({ target }) => this.#mark(target.closest(".word")));
    output.root.addEventListener("focusout", () => this.clear());
    field.addEventListener("blur", () => this.clear());
    document.addEventListener("selectionchange", () => {
      if (document.activeElement === field && field.matches(":focus-visible")) this.#mark(source.atCaret());
    });
  }

  /** Nothing is marked any more. */
  clear() {
    for (const element of this.#marked) element.classList.remove("linked", "near");
    this.#marked = [];
  }

  #mark(element) {
    if (element && element === this.#marked[0]) return;
    this.clear();
    const sentence = element?.closest(".sentence");
    const line = element?.closest(".line");
    if (!sentence || !line) return;
    const found = this.lines()[line.dataset.line]?.sentences[sentence.dataset.sentence];
    if (!found || found.state !== "done") return;
    const path = `[data-line="${line.dataset.line}"] [data-sentence="${sentence.dataset.sentence}"]`;
    const sides = { source: this.source.mirror, target: this.output.root };
    const own = sides.source.contains(element) ? "source" : "target";
    this.#add(element, element.matches(".word") ? "linked" : "near");
    for (const side of Object.values(sides)) this.#add(side.querySelector(path), "near");
    if (!element.matches(".word")) return;
    const at = spanOf(element);
    const links = (found.links ?? []).filter((link) => overlap(link[own], at));
    for (const side of ["source", "target"]) {
      for (const word of sides[side].querySelectorAll(`${path} .word`)) {
        if (links.some((link) => overlap(link[side], spanOf(word)))) this.#add(word, "linked");
      }
    }
  }

  #add(element, mark) {
    if (!element) return;
    element.classList.add(mark);
    this.#marked.push(element);
  }
}

/** The span of a word within its sentence. */
export function spanOf(word) {
  return [Number(word.dataset.start), Number(word.dataset.end)];
}
