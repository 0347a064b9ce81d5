// The translation of what is typed: asked for when the typing rests, shown as it appears, given up for the next.

import { Lines } from "./lines.js";
import { detect, translate, translateAsItAppears } from "./service.js";

/** Milliseconds without a key before a text counts as typed. */
const REST = 250;

/** Characters by which a language is recognised. */
const RECOGNISABLE = 1000;

export class Translation {
  #lines = new Lines();
  #timer = null;
  #abort = null;
  #text = "";

  /**
   * `directions` says which model is asked, `terms` which words; `shows` is told what happens: began(),
   * changed(line) (null: all lines), ended(), failed(error).
   */
  constructor(directions, terms, shows) {
    this.directions = directions;
    this.terms = terms;
    this.shows = shows;
    this.direction = null;
  }

  get lines() {
    return this.#lines.all;
  }

  get text() {
    return this.#lines.text;
  }

  /** Whether every line has its translation. */
  get done() {
    return this.#abort === null && this.#timer === null && this.lines.every((line) => line.done);
  }

  /** The text is now this; whatever was under way for another is given up. */
  change(text) {
    this.stop();
    this.#text = text;
    this.#timer = setTimeout(() => this.now(text), REST);
  }

  /** Translates without waiting. */
  async now(text = this.#text) {
    this.stop();
    this.#text = text;
    const abort = new AbortController();
    this.#abort = abort;
    try {
      await this.#run(text, abort.signal);
      if (this.#abort !== abort) return;
      this.#abort = null;
      this.shows.ended();
    } catch (error) {
      if (error.name === "AbortError" || this.#abort !== abort) return;
      this.#abort = null;
      this.shows.failed(error);
    }
  }

  /** Gives up what is under way. */
  stop() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#abort?.abort();
    this.#abort = null;
  }

  async #run(text, signal) {
    if (!text.trim()) {
      this.#lines.become(text, this.#lines.key);
      this.direction = null;
      this.shows.changed(null);
      return;
    }
    this.shows.began();
    const languages = this.directions.detects
      ? await detect(Array.from(text).slice(0, RECOGNISABLE).join(""), signal)
      : null;
    const direction = this.directions.chosen(languages);
    this.direction = direction;
    const pending = this.#lines.become(text, JSON.stringify([direction, this.terms.version]));
    this.shows.changed(null);
    if (pending.length) await this.#ask(pending, direction, signal);
  }

  async #ask(pending, direction, signal) {
    const text = pending.map((line) => line.source);
    const request = { ...direction, ...this.terms.fields(direction), text, align: true, confidence: true };
    for await (const { event, data } of translateAsItAppears(request, signal)) {
      const line = pending[data.text];
      if (event === "begin") {
        data.translations.forEach(({ sentences }, i) => pending[i].begin(sentences, direction.target));
      } else if (event === "sentence") {
        line.put(data.sentence, data.result);
        this.shows.changed(line);
      } else if (event === "done") {
        data.translations.forEach((translation, i) => pending[i].finish(translation));
        for (const finished of pending) this.#lines.remember(finished);
        this.shows.changed(null);
      }
    }
  }

  /** Puts another translation in a sentence's place, then asks what its words are linked to. */
  async choose(line, sentence, text) {
    Object.assign(sentence, { text, links: null, words: null, state: "done", chosen: true });
    this.shows.changed(line);
    this.shows.ended();
    const request = { text: sentence.source, split: false, prefix: text, align: true, confidence: true };
    try {
      const { translations } = await translate({ ...this.direction, ...request });
      const [found] = translations[0].sentences;
      if (sentence.text !== text || found?.text !== text) return; // the search went on after it
      Object.assign(sentence, { links: found.links, words: found.words });
      this.shows.changed(line);
      this.shows.ended();
    } catch {
      // the sentence is as chosen; only its links are missing
    }
  }
}
