// What was translated, kept in this browser and nowhere else: searched, forgotten piece by piece or as a whole.

import { iconButton, make, named, open } from "./elements.js";
import { languageName, locale, say } from "./messages.js";
import { device } from "./settings.js";

/** The most entries kept, and the most characters of one. */
const MOST = 200;
const LONGEST = 5000;

/** Milliseconds in which a text that goes on is the same entry. */
const SAME = 10 * 60 * 1000;

/** The entries, newest first: {time, source, target, model, text, translation}. */
export class History {
  #entries = [];

  /** `restore(entry)` brings a text back. */
  constructor(restore) {
    this.restore = restore;
    this.dialog = named("history");
    this.search = named("history-search");
    this.on = named("history-on");
    this.on.checked = device.get("history.on", "yes") === "yes";
    this.on.addEventListener("change", () => {
      device.set("history.on", this.on.checked ? "yes" : "no");
      this.#draw();
    });
    this.search.addEventListener("input", () => this.#draw());
    named("history-clear").addEventListener("click", () => this.#confirm(true));
    named("history-no").addEventListener("click", () => this.#confirm(false));
    named("history-yes").addEventListener("click", () => this.clear());
    this.#read();
  }

  open() {
    this.#read(); // another tab may have written
    this.#draw();
    open(this.dialog);
  }

  /** Keeps a translation; one whose text goes on from the last takes its place. */
  add({ source, target, model, text, translation }) {
    if (!this.on.checked || !text.trim() || !translation.trim() || text.length > LONGEST) return;
    this.#read();
    const entry = { time: Date.now(), source, target, model, text, translation };
    const [last] = this.#entries;
    if (last && last.source === source && last.target === target && goesOn(last, entry)) this.#entries.shift();
    this.#entries = [entry, ...this.#entries.filter((old) => !same(old, entry))].slice(0, MOST);
    this.#write();
  }

  /** Forgets everything. */
  clear() {
    this.#entries = [];
    device.remove("history");
    this.#confirm(false);
    this.#draw();
  }

  #read() {
    try {
      const kept = JSON.parse(device.get("history", "[]"));
      const whole = (entry) => typeof entry?.text === "string" && typeof entry.translation === "string";
      this.#entries = Array.isArray(kept) ? kept.filter(whole) : [];
    } catch {
      this.#entries = []; // written by something else
    }
  }

  #write() {
    while (this.#entries.length && !device.set("history", JSON.stringify(this.#entries))) {
      this.#entries = this.#entries.slice(0, Math.floor(this.#entries.length / 2)); // no room: the older half goes
    }
  }

  #confirm(asking) {
    named("history-clear").hidden = asking;
    named("history-confirm").hidden = !asking;
    named(asking ? "history-yes" : "history-clear").focus();
  }

  #draw() {
    const wanted = this.search.value.trim().toLocaleLowerCase();
    const fits = ({ text, translation }) => `${text}\n${translation}`.toLocaleLowerCase().includes(wanted);
    const found = this.#entries.filter(fits);
    named("history-list").replaceChildren(...found.map((entry) => this.#item(entry)));
    const empty = this.#entries.length ? say("history.nothing") : say("history.empty");
    named("history-state").textContent = found.length ? "" : this.on.checked ? empty : say("history.off");
    named("history-clear").disabled = this.#entries.length === 0;
  }

  #item(entry) {
    const when = new Date(entry.time).toLocaleString(locale(), { dateStyle: "medium", timeStyle: "short" });
    const names = [entry.source, entry.target].filter(Boolean).map(languageName).join(" → ");
    const back = make(
      "button",
      { type: "button", className: "entry" },
      make("span", { className: "hint", textContent: `${names} · ${when}` }),
      make("span", { className: "said", dir: "auto", lang: entry.source ?? "", textContent: entry.text }),
      make("span", { className: "meant", dir: "auto", lang: entry.target ?? "", textContent: entry.translation }),
    );
    back.addEventListener("click", () => {
      this.dialog.close();
      this.restore(entry);
    });
    const forget = iconButton("close", say("history.forget"), () => {
      this.#entries = this.#entries.filter((old) => old !== entry);
      this.#write();
      if (this.#entries.length === 0) device.remove("history");
      this.#draw();
      (named("history-list").querySelector("button") ?? this.search).focus();
    });
    return make("li", {}, back, forget);
  }
}

function same(one, other) {
  return one.text === other.text && one.source === other.source && one.target === other.target;
}

function goesOn(last, entry) {
  const longer = entry.text.startsWith(last.text) || last.text.startsWith(entry.text);
  return longer && entry.time - last.time < SAME;
}
