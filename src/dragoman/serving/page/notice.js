// What is wrong, said calmly and once, with what happens next: a countdown, or a button to try again.

import { named } from "./elements.js";
import { say } from "./messages.js";

/** Seconds between attempts while nobody answers: longer each time. */
const PAUSES = [2, 4, 8, 15, 30];

export class Notice {
  #timer = null;
  #attempts = 0;
  #retry = null;

  constructor() {
    this.box = named("notice");
    named("notice-close").addEventListener("click", () => this.clear());
    named("notice-retry").addEventListener("click", () => this.#again());
    addEventListener("online", () => this.#retry && this.#again());
  }

  /** Says it. `retry` is what to do again, after `seconds` by itself where they are given. */
  show(text, { retry = null, seconds = null } = {}) {
    clearInterval(this.#timer);
    this.#retry = retry;
    this.box.hidden = false;
    if (named("notice-text").textContent !== text) named("notice-text").textContent = text;
    named("notice-retry").hidden = retry === null;
    this.#count(retry === null ? null : seconds);
  }

  /** Says what an error of the service means to a person, and what becomes of it. */
  explain(error, retry) {
    if (error.status === 0) {
      const seconds = PAUSES[Math.min(this.#attempts, PAUSES.length - 1)];
      this.#attempts += 1;
      this.show(say("error.unreachable"), { retry, seconds });
    } else if (error.status === 429) {
      this.show(say("error.busy"), { retry, seconds: error.wait ?? 5 });
    } else if (error.status === 503) {
      this.show(say("error.starting"), { retry, seconds: error.wait ?? 3 });
    } else if (error.status === 504 || error.status === 408) {
      this.show(say("error.time"), { retry });
    } else if (error.status === 413) {
      this.show(error.message ? say("error.said", { message: error.message }) : say("error.large"));
    } else {
      const message = error.message || String(error.status);
      this.show(say("error.said", { message }), { retry: error.status >= 500 ? retry : null });
    }
  }

  /** All is well. */
  clear() {
    clearInterval(this.#timer);
    this.#retry = null;
    this.#attempts = 0;
    this.box.hidden = true;
    named("notice-text").textContent = "";
  }

  #again() {
    const retry = this.#retry;
    clearInterval(this.#timer);
    this.#count(null);
    retry?.();
  }

  #count(seconds) {
    const place = named("notice-count");
    place.textContent = seconds === null ? "" : say("retry.in", { n: seconds });
    if (seconds === null) return;
    let left = seconds;
    this.#timer = setInterval(() => {
      left -= 1;
      if (left > 0) place.textContent = say("retry.in", { n: left });
      else this.#again();
    }, 1000);
  }
}
