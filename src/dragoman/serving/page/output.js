// The translation to be seen and read: sentences, words that can be asked about, and how sure the model was.

import { contain, make, named } from "./elements.js";
import { locale, say } from "./messages.js";
import { length, pieces, words } from "./text.js";

/** Characters up to which a translation is shown large. */
const SHORT = 240;

/** Characters from which on a translation is drawn less often, and the milliseconds between two pictures of it. */
const LONG = 3000;
const PAUSE = 250;

/** Milliseconds of quiet after which a translation is said, and characters up to which it is said as a whole. */
const QUIET = 800;
const SAYABLE = 600;

/** Probabilities from which on a word counts as more sure. */
const STEPS = [0.25, 0.5, 0.75];

/** 0 to 3: how sure the model was of a word. */
export function sureness(probability) {
  return STEPS.filter((step) => probability >= step).length;
}

/**
 * The translation's words are one stop of the Tab key; arrows go from word to word.
 *
 * `asks(element, whole)` is called when a word or a sentence is chosen, `whole` for the sentence.
 */
export class Output {
  #elements = new WeakMap();
  #drawn = new WeakMap();
  #waiting = new Set();
  #current = null;
  #long = false;
  #saying = null;

  constructor(asks) {
    this.root = named("output");
    this.asks = asks;
    this.confidence = false;
    this.language = null;
    this.root.addEventListener("click", (event) => this.#click(event));
    this.root.addEventListener("keydown", (event) => this.#key(event));
    this.root.addEventListener("focusin", (event) => this.#stopAt(event.target.closest(".word")));
  }

  /** Draws these lines before the next picture; `changed` is the only one that has changed, null for all. */
  show(lines, changed, language) {
    this.language = language;
    this.#waiting.add(changed ?? "all");
    if (this.#waiting.size > 1) return;
    const draw = () => requestAnimationFrame(() => this.#draw(lines()));
    if (this.#long) setTimeout(draw, PAUSE);
    else draw();
  }

  #draw(lines) {
    const all = this.#waiting.has("all");
    const active = this.root.contains(document.activeElement) ? this.#address(document.activeElement) : null;
    for (const line of lines) {
      if (!this.#elements.has(line)) this.#elements.set(line, make("div", { className: "line", dir: "auto" }));
      else if (!all && !this.#waiting.has(line)) continue;
      this.#drawLine(this.#elements.get(line), line);
    }
    this.#waiting.clear();
    const elements = lines.map((line) => this.#elements.get(line));
    elements.forEach((element, i) => (element.dataset.line = i));
    contain(this.root, elements);
    if (this.root.lang !== this.language) this.root.lang = this.language ?? "";
    const n = length(this.root.textContent);
    this.#long = n > LONG;
    this.root.classList.toggle("short", n <= SHORT);
    named("output-placeholder").hidden = n > 0;
    this.#stopAt(active ? this.#find(active) : this.root.querySelector(".word"));
    if (active) this.#current?.focus();
  }

  #drawLine(element, line) {
    const stale = line.sentences.length === 0 && line.previous;
    const sentences = stale ? line.previous.sentences : line.sentences;
    const content = sentences.flatMap((sentence, k) => [sentence.before ?? "", this.#sentence(sentence, k, stale)]);
    const end = element.lastChild ?? make("br"); // a line without text is as high as one with it
    contain(element, [...content, line.after, end]);
  }

  #sentence(sentence, k, stale) {
    const state = stale ? "waiting" : sentence.state;
    const looks = [sentence.text, state, sentence.words, this.confidence, this.language, locale()];
    const drawn = this.#drawn.get(sentence);
    if (drawn && looks.every((each, i) => each === drawn.looks[i])) {
      drawn.element.dataset.sentence = k;
      return drawn.element; // a text may have hundreds of sentences, of which one has changed
    }
    const element = make("span", { className: `sentence ${state}`, data: { sentence: k } });
    element.append(...(state === "done" ? this.#words(sentence) : [sentence.text]));
    this.#drawn.set(sentence, { looks, element });
    return element;
  }

  #words(sentence) {
    const sure = new Map((sentence.words ?? []).map(({ start, probability }) => [start, probability]));
    const spans = sentence.words?.length
      ? sentence.words.map(({ start, end }) => [start, end])
      : words(sentence.text, this.language);
    return pieces(sentence.text, spans).map(({ text, span }) =>
      span === null ? text : this.#word(text, span, sure.get(span[0])),
    );
  }

  #word(text, [start, end], probability) {
    const word = make("span", {
      className: "word",
      role: "button",
      tabIndex: -1,
      textContent: text,
      data: { start, end },
      aria: { haspopup: "dialog" },
    });
    if (this.confidence && typeof probability === "number") {
      const share = probability.toLocaleString(locale(), { style: "percent" });
      word.classList.add(`sure-${sureness(probability)}`);
      word.setAttribute("aria-label", say("confidence.of", { word: text, share }));
      word.title = share;
    }
    return word;
  }

  #click(event) {
    if (!getSelection().isCollapsed) return; // text was marked, to be copied
    const word = event.target.closest(".word");
    const sentence = event.target.closest(".sentence.done");
    if (word) this.asks(word, event.shiftKey);
    else if (sentence) this.asks(sentence.querySelector(".word") ?? sentence, true);
  }

  #key(event) {
    const word = event.target.closest(".word");
    if (!word || event.altKey || event.ctrlKey || event.metaKey) return;
    const all = [...this.root.querySelectorAll(".word")];
    const rtl = getComputedStyle(word).direction === "rtl" ? -1 : 1;
    const steps = { ArrowRight: rtl, ArrowLeft: -rtl, ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      const place = Math.min(Math.max(all.indexOf(word) + steps[event.key], 0), all.length - 1);
      all[place].focus();
    } else if (event.key === "Enter" || event.key === " ") {
      this.asks(word, event.shiftKey);
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Only one word can be reached with Tab. */
  #stopAt(word) {
    if (!word) return;
    this.#current?.setAttribute("tabindex", "-1");
    this.#current = word;
    word.setAttribute("tabindex", "0");
  }

  #address(element) {
    const [line, sentence, word] = [".line", ".sentence", ".word"].map((part) => element.closest(part));
    return { line: line?.dataset.line, sentence: sentence?.dataset.sentence, start: word?.dataset.start };
  }

  #find({ line, sentence, start }) {
    const there = `[data-line="${line}"] [data-sentence="${sentence}"]`;
    const words_ = `${there} .word`;
    return this.root.querySelector(`${words_}[data-start="${start}"]`) ?? this.root.querySelector(words_);
  }

  /** Says the finished translation once to those who hear the page, when nobody types any more. */
  announce(text) {
    clearTimeout(this.#saying);
    const place = named("spoken");
    const said = length(text) <= SAYABLE ? text : say("translated");
    if (place.textContent === said) return;
    this.#saying = setTimeout(() => {
      place.lang = said === text ? (this.language ?? "") : "";
      place.textContent = said;
    }, QUIET);
  }

  /** What was to be said is out of date. */
  hush() {
    clearTimeout(this.#saying);
  }
}
