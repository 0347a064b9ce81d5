// Terms: glossaries from files, one for each direction, and what is copied unchanged. Kept on this device.

import { iconButton, make, named, open } from "./elements.js";
import { languageName, say } from "./messages.js";
import { device } from "./settings.js";

/** The most bytes of a glossary file, far more than a request may have. */
const MOST_BYTES = 2 ** 20;

const NAMES = [["source", "src"], ["target", "tgt"]];

/** What is wrong with a file, in the language of the page. */
class FileError extends Error {}

export class Terms {
  #glossaries = {}; // by direction, as "en-de": {name, entries}
  #most = Infinity;

  /** `directions` says which languages a file is for; `changed()` is called when translations may differ. */
  constructor(directions, changed) {
    this.directions = directions;
    this.changed = changed;
    /** Grows with every change. */
    this.version = 0;
    this.dialog = named("terms");
    this.input = named("glossary");
    this.inflect = named("inflect");
    this.protect = named("protect");
    named("choose-glossary").addEventListener("click", () => this.input.click());
    this.input.addEventListener("change", () => this.#take(this.input.files[0]));
    for (const option of [this.inflect, this.protect]) {
      option.checked = device.get(option.id) === "yes";
      option.addEventListener("change", () => {
        device.set(option.id, option.checked ? "yes" : "no");
        this.#change();
      });
    }
    this.#read();
  }

  /** How many entries the service takes. */
  set most(most) {
    this.#most = most;
  }

  open() {
    this.#read(); // another tab may have written
    this.#say("");
    this.refresh();
    open(this.dialog);
  }

  /** What a request in this direction says of terms. */
  fields({ source, target }) {
    const entries = this.#glossaries[`${source}-${target}`]?.entries;
    const glossary = entries ? { glossary: entries, inflect: this.inflect.checked } : {};
    return { ...glossary, ...(this.protect.checked ? { protect: true } : {}) };
  }

  /** In the language of the page. */
  refresh() {
    const { sourceLanguage: source } = this.directions;
    const names = { source: source && languageName(source), target: languageName(this.directions.target.value) };
    named("choose-glossary").disabled = source === null;
    named("terms-direction").textContent = source === null ? say("terms.unknown") : say("terms.direction", names);
    const items = Object.entries(this.#glossaries).map(([key, glossary]) => this.#item(key, glossary));
    named("glossaries").replaceChildren(...items);
    named("open-terms").classList.toggle("strong", items.length > 0 || this.protect.checked);
  }

  #item(key, { name, entries }) {
    const count = say("terms.count", { n: entries.length });
    const remove = iconButton("close", say("documents.remove", { name }), () => {
      delete this.#glossaries[key];
      this.#keep();
      named("choose-glossary").focus();
    });
    const what = make("span", { className: "name", dir: "auto", textContent: name });
    return make("li", {}, what, make("span", { className: "hint", textContent: `${key} · ${count}` }), remove);
  }

  async #take(file) {
    const { sourceLanguage: source, target } = this.directions;
    const languages = [source, target.value];
    this.input.value = ""; // the same file again is a change, too
    try {
      if (file.size > MOST_BYTES) throw new FileError(say("documents.large", { n: 1 }));
      const entries = parse(file.name, await textOf(file), languages);
      if (entries.length > this.#most) throw new FileError(say("terms.many", { n: this.#most }));
      this.#glossaries[languages.join("-")] = { name: file.name, entries };
      this.#say(say("terms.count", { n: entries.length }));
      this.#keep();
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      this.#say(`${file.name}: ${error.message}`);
    }
  }

  #read() {
    try {
      this.#glossaries = JSON.parse(device.get("glossaries", "{}")) ?? {};
    } catch {
      this.#glossaries = {}; // written by something else
    }
  }

  #keep() {
    if (Object.keys(this.#glossaries).length === 0) device.remove("glossaries");
    else if (!device.set("glossaries", JSON.stringify(this.#glossaries))) this.#say(say("terms.full"));
    this.#change();
  }

  #change() {
    this.version += 1;
    this.refresh();
    this.changed();
  }

  #say(text) {
    named("terms-state").textContent = text;
  }
}

async function textOf(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new FileError(say("terms.encoding"));
  }
}

/** The pairs of a glossary file, by its ending: TBX, CSV, else columns with tabs between them. */
function parse(name, text, languages) {
  const ending = name.toLowerCase().split(".").pop();
  const pairs = ending === "tbx" ? termBase(text, languages) : columns(records(text, ending === "csv"), languages);
  const targets = new Map();
  for (const [source, target] of pairs) {
    if ((targets.get(source) ?? target) !== target) throw new FileError(say("terms.twice", { source }));
    targets.set(source, target);
  }
  if (targets.size === 0) throw new FileError(say("terms.none"));
  return [...targets];
}

/** The lines of a file as [{n, cells}], empty ones left out; in CSV a quoted cell may hold commas and lines. */
function records(text, csv) {
  const first = text.slice(0, text.indexOf("\n") + 1 || undefined);
  const count = (mark) => first.split(mark).length;
  const mark = csv ? [",", ";", "\t"].reduce((one, other) => (count(other) > count(one) ? other : one)) : "\t";
  const cell = csv ? `"((?:[^"]|"")*)"(?=${mark}|\\r?\\n|$)|((?!")[^${mark}\\r\\n]*)` : "()([^\t\r\n]*)";
  const token = new RegExp(`(?:${cell})(${mark}|\\r?\\n|\\r|$)`, "gy");
  const found = [];
  let [n, cells] = [1, []];
  for (let at = 0; at < text.length || cells.length; at = token.lastIndex) {
    token.lastIndex = at;
    const [whole, quoted, plain, end] = token.exec(text) ?? [];
    if (whole === undefined) throw new FileError(say("terms.line", { n }));
    cells.push((quoted?.replaceAll('""', '"') || plain || "").normalize("NFC").trim().replace(/\s+/gu, " "));
    if (end === mark) continue;
    if (cells.some(Boolean)) found.push({ n, cells });
    n += whole.split("\n").length - 1;
    cells = [];
    if (!end) break;
  }
  return found;
}

/** Source and target of each line, by the names in the first one if it has any. */
function columns(lines, languages) {
  const names = (i) => (cell) => NAMES[i].includes(cell.toLowerCase()) || speaks(cell, languages[i]);
  const places = languages.map((_, i) => lines[0]?.cells.findIndex(names(i)));
  const header = places.every((place) => place >= 0);
  const [source, target] = header ? places : [0, 1];
  const n_cells = header ? lines[0].cells.length : 2;
  return lines.slice(header ? 1 : 0).map(({ n, cells }) => {
    if (cells.length !== n_cells || !cells[source] || !cells[target]) throw new FileError(say("terms.line", { n }));
    return [cells[source], cells[target]];
  });
}

/** Each source term of an entry, with the first target term. */
function termBase(text, languages) {
  const base = new DOMParser().parseFromString(text, "application/xml");
  if (base.querySelector("parsererror")) throw new FileError(say("terms.xml"));
  return [...base.querySelectorAll("termEntry, conceptEntry")].flatMap((entry) => {
    const [sources, targets] = languages.map((language) =>
      [...entry.querySelectorAll("langSet, langSec")]
        .filter((section) => speaks(section.getAttribute("xml:lang") ?? "", language))
        .flatMap((section) => [...section.querySelectorAll("term")])
        .map((term) => term.textContent.trim().replace(/\s+/gu, " "))
        .filter(Boolean),
    );
    return targets.length ? sources.map((source) => [source, targets[0]]) : [];
  });
}

/** Whether "en-US" is "en", or a variant of it. */
function speaks(tag, language) {
  return `${tag.toLowerCase().replaceAll("_", "-")}-`.startsWith(`${language.toLowerCase()}-`);
}
