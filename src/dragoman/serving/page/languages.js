// Directions and models: which language into which, with which model, and whether there is a way back.

import { fill, named } from "./elements.js";
import { languageName, say } from "./messages.js";
import { device } from "./settings.js";

/** What the source's menu says for a language to be recognised. */
const DETECT = "auto";

/** The confidence from which on a text is said to be in a language that is not served; short texts have less. */
const SURE = 0.9;

const millions = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)} M` : `${Math.max(1, Math.round(n / 1e3))} k`);

export class Directions {
  #models = [];
  #recognised = null;
  #unserved = null; // the language of a text that no model reads: another one stands in for it

  /** `changed()` is called when another direction or model is chosen. */
  constructor(changed) {
    this.changed = changed;
    this.source = named("source-language");
    this.target = named("target-language");
    this.model = named("model");
    this.swap = named("swap");
    this.source.addEventListener("change", () => this.#choose("source"));
    this.target.addEventListener("change", () => this.#choose("target"));
    this.model.addEventListener("change", () => this.#choose("model"));
  }

  /** The models that are served, those that translate. */
  set models(models) {
    this.#models = models.filter(({ task }) => task === "translation");
    this.refresh();
    this.#restore();
  }

  get models() {
    return this.#models;
  }

  /** Whether the source's language is to be recognised. */
  get detects() {
    return this.source.value === DETECT;
  }

  /** The source language where it is known: chosen, or recognised in the last text. */
  get sourceLanguage() {
    return this.detects ? this.#recognised : this.source.value;
  }

  /** The menus, from the models and in the language of the page. */
  refresh() {
    const sources = unique(this.#models.map(({ source }) => source));
    const detect = sources.length > 1 ? [{ value: DETECT, text: this.#detectText() }] : [];
    fill(this.source, [...detect, ...byName(sources)]);
    this.#refreshTargets();
  }

  #detectText() {
    if (!this.#recognised || !this.detects) return say("source.detect");
    const names = { language: languageName(this.#recognised) };
    return this.#unserved
      ? say("source.unserved", { ...names, unserved: languageName(this.#unserved) })
      : say("source.detected", names);
  }

  #refreshTargets() {
    const source = this.sourceLanguage;
    const fitting = this.#models.filter((model) => source === null || model.source === source);
    fill(this.target, byName(unique(fitting.map(({ target }) => target))));
    this.#refreshModels();
  }

  #refreshModels() {
    const models = this.#fitting(this.sourceLanguage, this.target.value);
    named("model-menu").hidden = models.length < 2;
    const text = ({ name, parameters }) => `${name} · ${millions(parameters)}`;
    fill(this.model, models.map((model) => ({ value: model.name, text: text(model) })));
    this.#refreshSwap();
    this.#refreshFacts();
  }

  #refreshSwap() {
    const [source, target] = [this.sourceLanguage, this.target.value];
    const back = source !== null && this.#fitting(target, source).length > 0;
    const names = { source: languageName(target), target: source === null ? "" : languageName(source) };
    const reason = source === null ? say("swap.unknown") : say("swap.missing", names);
    this.swap.setAttribute("aria-disabled", String(!back));
    named("swap-reason").textContent = back ? "" : reason;
    this.swap.title = back ? say("swap") : reason;
  }

  #refreshFacts() {
    const fitting = this.#fitting(this.sourceLanguage, this.target.value);
    const model = fitting.find(({ name }) => name === this.model.value);
    const size = model ? say("facts.parameters", { n: millions(model.parameters) }) : "";
    const way = model?.pivot ? [say("facts.pivot", { language: languageName(model.pivot) })] : [];
    named("facts").textContent = model ? [model.name, size, model.precision, ...way].join(" · ") : "";
  }

  /** Whether the swap is possible. */
  get swaps() {
    return this.swap.getAttribute("aria-disabled") !== "true";
  }

  /** Source and target change places. */
  turn() {
    const [source, target] = [this.sourceLanguage, this.target.value];
    this.source.value = target;
    this.#refreshTargets();
    this.target.value = source;
    this.#choose("target");
  }

  #fitting(source, target) {
    return this.#models.filter((m) => (source === null || m.source === source) && m.target === target);
  }

  #choose(menu) {
    if (menu === "source") {
      [this.#recognised, this.#unserved] = [null, null];
      this.refresh();
    }
    if (menu === "target") this.#refreshModels();
    if (menu === "model") this.#refreshFacts();
    device.set("direction", JSON.stringify([this.source.value, this.target.value, this.model.value]));
    this.changed();
  }

  #restore() {
    let kept = [];
    try {
      kept = JSON.parse(device.get("direction", "[]"));
    } catch {
      // written by something else: the menus begin as they are
    }
    this.#put(kept);
  }

  /** What a request says of its direction; `languages` are those that its text may be in, the likeliest first. */
  chosen(languages = null) {
    if (languages) this.#recognise(languages);
    const [source, target] = [this.sourceLanguage, this.target.value];
    return { model: this.model.value || null, source, target };
  }

  #recognise(languages) {
    const served = new Set(this.#models.map(({ source }) => source));
    const found = languages.find(({ language }) => served.has(language))?.language;
    const recognised = found ?? this.#models[0]?.source ?? null;
    const [likeliest] = languages;
    const other = likeliest && !served.has(likeliest.language) && (!found || likeliest.confidence >= SURE);
    const unserved = other ? likeliest.language : null;
    if (recognised === this.#recognised && unserved === this.#unserved) return;
    [this.#recognised, this.#unserved] = [recognised, unserved];
    this.source.options[0].textContent = this.#detectText();
    this.#refreshTargets();
  }

  /** Chooses a direction that was chosen before, as far as it is still served. */
  take({ source, target, model }) {
    this.#put([source, target, model]);
    this.#choose("model");
  }

  #put(values) {
    [this.source, this.target, this.model].forEach((menu, i) => {
      if ([...menu.options].some(({ value }) => value === values[i])) menu.value = values[i];
      if (menu === this.source) this.#refreshTargets();
      if (menu === this.target) this.#refreshModels();
    });
  }

  /** The most alternatives that a model gives. */
  maxBest(name) {
    return this.#models.find((model) => model.name === name)?.max_n_best ?? 1;
  }
}

function unique(values) {
  return [...new Set(values.filter((value) => value !== null && value !== undefined))];
}

function byName(codes) {
  const options = codes.map((value) => ({ value, text: languageName(value) }));
  return options.sort((one, other) => one.text.localeCompare(other.text));
}
