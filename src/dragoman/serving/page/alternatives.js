// What else the model would say: of a whole sentence, or from one of its words on.

import { spanOf } from "./alignment.js";
import { make, named } from "./elements.js";
import { say } from "./messages.js";
import { translate } from "./service.js";
import { difference, pieces, slice } from "./text.js";

/** How many alternatives are asked for. */
const N_BEST = 5;

/** Pixels between a word and its list. */
const GAP = 6;

export class Alternatives {
  #abort = null;
  #asked = null;

  /** `translation` has the sentences; `failed(error)` is told when the service does not answer. */
  constructor(translation, failed) {
    this.translation = translation;
    this.failed = failed;
    this.box = named("alternatives");
    this.list = named("alternatives-list");
    this.box.addEventListener("beforetoggle", ({ newState }) => newState === "closed" && this.#closing());
    this.box.addEventListener("keydown", (event) => this.#key(event));
    named("alternatives-word").addEventListener("click", () => this.#ask(false));
    named("alternatives-sentence").addEventListener("click", () => this.#ask(true));
    addEventListener("resize", () => this.close());
  }

  /** Opens at a word (or sentence) of the output; `whole` begins with the whole sentence's alternatives. */
  open(element, whole) {
    const line = this.translation.lines[element.closest(".line").dataset.line];
    const place = element.closest(".sentence");
    const sentence = line?.sentences[place.dataset.sentence];
    if (sentence?.state !== "done") return;
    const isWord = element.matches(".word");
    this.#asked = { element, place, line, sentence, start: isWord ? spanOf(element)[0] : 0 };
    const word = isWord ? element.textContent : "";
    named("alternatives-title").textContent = isWord
      ? say("alternatives.title", { word })
      : say("alternatives.title.sentence");
    named("alternatives-word").hidden = !isWord;
    this.box.showPopover();
    element.setAttribute("aria-expanded", "true");
    this.#ask(whole || !isWord);
  }

  close() {
    if (this.box.matches(":popover-open")) this.box.hidePopover();
  }

  /** The focus goes back to the word. */
  #closing() {
    this.#abort?.abort();
    const { element, place } = this.#asked;
    element.removeAttribute("aria-expanded");
    place.classList.remove("asked");
    if (this.box.contains(document.activeElement)) element.focus({ preventScroll: true });
  }

  async #ask(whole) {
    this.#abort?.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    named("alternatives-word").setAttribute("aria-pressed", String(!whole));
    named("alternatives-sentence").setAttribute("aria-pressed", String(whole));
    this.list.replaceChildren();
    this.#state(say("alternatives.searching"));
    this.#place();
    const { sentence, start } = this.#asked;
    const prefix = whole ? null : slice(sentence.text, 0, start).trimEnd() || null;
    try {
      const found = await this.#search(sentence, prefix, signal);
      if (signal.aborted) return;
      this.#show(found);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.close();
      this.failed(error);
    }
  }

  async #search(sentence, prefix, signal) {
    const { direction, directions, terms } = this.translation;
    const n_best = Math.min(N_BEST, directions.maxBest(direction.model));
    const { protect = false, ...glossary } = terms.fields(direction); // what is kept may be in the prefix already
    const kept = { ...glossary, protect: protect && prefix === null };
    const request = { ...direction, ...kept, text: sentence.source, split: false, n_best, prefix };
    const { translations } = await translate(request, signal);
    const texts = translations[0].sentences[0]?.alternatives.map(({ text }) => text) ?? [];
    return [...new Set(texts)].filter((text) => text !== "");
  }

  #show(texts) {
    const { sentence } = this.#asked;
    const others = texts.filter((text) => text !== sentence.text);
    this.#state(others.length ? "" : say("alternatives.none"));
    const language = this.translation.direction.target ?? "";
    this.list.lang = language;
    const shown = [sentence.text, ...others];
    this.list.replaceChildren(...shown.map((text) => make("li", {}, this.#option(text))));
    this.#place();
    this.list.querySelector("button").focus({ preventScroll: true });
  }

  #option(text) {
    const { sentence } = this.#asked;
    const current = text === sentence.text;
    const option = make("button", { type: "button", className: "option" });
    if (current) {
      option.setAttribute("aria-current", "true");
      option.append(text);
    } else {
      const other = pieces(text, [difference(text, sentence.text)]);
      option.append(...other.map((p) => (p.span ? make("strong", { textContent: p.text }) : p.text)));
    }
    option.addEventListener("click", () => this.#choose(text));
    return option;
  }

  #choose(text) {
    const { line, sentence } = this.#asked;
    this.close();
    if (text !== sentence.text) this.translation.choose(line, sentence, text);
  }

  #state(text) {
    named("alternatives-state").textContent = text;
  }

  /** Beneath the word, inside the window; on a phone the style sheet puts it at the bottom instead. */
  #place() {
    const { element, place } = this.#asked;
    place.classList.add("asked");
    const { left, bottom, top } = element.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = this.box;
    const { clientWidth, clientHeight } = document.documentElement;
    const above = bottom + GAP + offsetHeight > clientHeight && top - GAP - offsetHeight > 0;
    const x = Math.max(GAP, Math.min(left - 2 * GAP, clientWidth - offsetWidth - GAP));
    const y = above ? top - GAP - offsetHeight : bottom + GAP;
    this.box.style.setProperty("--x", `${x + scrollX}px`);
    this.box.style.setProperty("--y", `${y + scrollY}px`);
  }

  #key(event) {
    const options = [...this.list.querySelectorAll("button")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined || options.length === 0) return;
    const at = options.indexOf(document.activeElement);
    options[(at + step + options.length) % options.length].focus();
    event.preventDefault();
  }
}
