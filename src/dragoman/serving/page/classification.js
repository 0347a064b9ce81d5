// What a classifier takes a text for: how likely each class is, and which words spoke for and against.

import { fill, make, named } from "./elements.js";
import { locale, say } from "./messages.js";
import { classify } from "./service.js";
import { SourceField } from "./source.js";
import { pieces } from "./text.js";

/** Milliseconds without a key before a text counts as typed. */
const REST = 350;

/** The share of the strongest effect from which on a word is shaded, and from which on strongly. */
const WORTH_SHADING = 0.15;
const STRONG = 0.5;

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
    if (this.#shown) this.#draw(...this.#shown);
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
    if (!text.trim()) return this.#draw(text, null);
    if (this.source.tooLong) return this.failed(null);
    named("classify-working").hidden = false;
    try {
      const request = { model: this.menu.value, text, explain: true };
      const { results } = await classify(request, signal);
      this.well();
      this.#draw(text, results[0]);
      this.#announce(results[0]);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error, () => this.now());
    } finally {
      if (!signal.aborted) named("classify-working").hidden = true;
    }
  }

  #draw(text, result) {
    this.#shown = [text, result];
    const label = result?.label ?? null;
    named("classify-placeholder").hidden = label !== null;
    const labels = result?.labels ?? [];
    named("label").textContent = label === null ? "" : shown(labels);
    named("cut").textContent = result?.n_cut ? say("classify.cut", { n: result.n_cut }) : "";
    const likeliest = Object.entries(result?.probabilities ?? {}).sort(([, one], [, other]) => other - one);
    named("bars").replaceChildren(...likeliest.map(([name, share]) => bar(name, share, labels.includes(name))));
    const words = label === null ? [] : (result.words ?? []);
    named("effects").hidden = words.length === 0;
    named("effect-words").replaceChildren(...shaded(text, words));
    named("legend-for").textContent = say("classify.for", { label });
    named("legend-against").textContent = say("classify.against", { label });
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

/** The text with its words marked by how far they moved the decision. */
function shaded(text, words) {
  const strongest = Math.max(...words.map(({ effect }) => Math.abs(effect)));
  const effects = new Map(words.map(({ start, effect }) => [start, effect]));
  const spans = words.map(({ start, end }) => [start, end]);
  return pieces(text, spans).map((piece) => {
    const effect = piece.span ? effects.get(piece.span[0]) : 0;
    const share = strongest > 0 ? Math.abs(effect) / strongest : 0;
    if (share < WORTH_SHADING) return piece.text;
    const side = effect > 0 ? "for" : "against";
    const told = say(`classify.effect.${side}`, { n: Math.round(100 * Math.abs(effect)) / 100 });
    const className = share >= STRONG ? `${side} strong` : side;
    const mark = make("mark", { className, textContent: piece.text, title: told });
    mark.append(make("span", { className: "unseen", textContent: ` (${told})` }));
    return mark;
  });
}
