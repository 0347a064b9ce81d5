// What a classifier takes a text for: how likely each class is.

import { fill, make, named } from "./elements.js";
import { locale, say } from "./messages.js";
import { classify } from "./service.js";
import { SourceField } from "./source.js";

/** Milliseconds without a key before a text counts as typed. */
const REST = 350;

export class Classification {
  #abort = null;
  #timer = null;
  #shown = null;

  /** `failed(error, retry)` is told when the service does not answer, `well()` when it does. */
  constructor({ failed, well }) {
    this.failed = failed;
    this.well = well;
    this.menu = named("classifier");
    const parts = { field: "classify-source", mirror: "classify-mirror", counter: "classify-counter" };
    const [field, mirror, counter] = Object.values(parts).map(named);
    this.source = new SourceField({ field, mirror, counter, changed: () => this.#change() });
    this.menu.addEventListener("change", () => this.now());
  }

  /** The classifiers that are served, and how many characters they take. */
  serve(models, limit) {
    fill(this.menu, models.map(({ name }) => ({ value: name, text: name })));
    this.source.limit = limit;
  }

  /** In the language of the page. */
  refresh() {
    this.source.refresh();
    this.#draw(this.#shown);
  }

  #change() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#timer = setTimeout(() => this.now(), REST);
  }

  /** Asks without waiting. */
  async now() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    const { text } = this.source;
    if (!text.trim()) return this.#draw(null);
    if (this.source.tooLong) return this.failed(null);
    named("classify-working").hidden = false;
    try {
      const request = { model: this.menu.value, text };
      const { results } = await classify(request, signal);
      this.well();
      this.#draw(results[0]);
      this.#announce(results[0]);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error, () => this.now());
    } finally {
      if (!signal.aborted) named("classify-working").hidden = true;
    }
  }

  #draw(result) {
    this.#shown = result;
    const label = result?.label ?? null;
    named("classify-placeholder").hidden = label !== null;
    const labels = result?.labels ?? [];
    named("label").textContent = label === null ? "" : shown(labels);
    named("cut").textContent = result?.n_cut ? say("classify.cut", { n: result.n_cut }) : "";
    const likeliest = Object.entries(result?.probabilities ?? {}).sort(([, one], [, other]) => other - one);
    named("bars").replaceChildren(...likeliest.map(([name, share]) => bar(name, share, labels.includes(name))));
  }

  #announce({ label, labels, probabilities }) {
    const share = labels.map((name) => percent(probabilities[name])).join(", ");
    const spoken = labels.length ? say("classify.says", { label: shown(labels), share }) : "–";
    named("classify-spoken").textContent = label === null ? "" : spoken;
  }
}

/** The labels given, in a line; a dash where none is likely enough. */
function shown(labels) {
  return labels.join(", ") || "–";
}

function percent(share) {
  return share.toLocaleString(locale(), { style: "percent", maximumFractionDigits: 1 });
}

function bar(name, share, first) {
  const fill_ = make("span", { className: "fill" });
  fill_.style.setProperty("width", `${100 * share}%`);
  return make(
    "li",
    { className: first ? "first" : "" },
    make("span", { className: "name", textContent: name, dir: "auto" }),
    make("span", { className: "track", aria: { hidden: "true" } }, fill_),
    make("span", { className: "share", textContent: percent(share) }),
  );
}
