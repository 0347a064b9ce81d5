// Messages of the page in the reader's language. messages/*.json have the same keys in each language.

import { fill, named } from "./elements.js";
import { device } from "./settings.js";

/** The page's languages, each by its own name. */
const LANGUAGES = { en: "English", de: "Deutsch", pl: "Polski", zh: "中文" };

let language = "en";
let messages = {};
const listeners = [];

/** The message `key` with {names} replaced; where it has plural forms, `n` chooses one. */
export function say(key, values = {}) {
  let message = messages[key] ?? key;
  if (typeof message === "object") {
    message = message[new Intl.PluralRules(language).select(values.n)] ?? message.other;
  }
  return message.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name] ?? whole;
    return typeof value === "number" ? value.toLocaleString(locale()) : value;
  });
}

/** Where the reader is, for dates and numbers: the browser's own place, if it is of the page's language. */
export function locale() {
  return navigator.languages.find((tag) => tag.split("-")[0] === language) ?? language;
}

/** The name of a language, in the language of the page, to stand at the beginning of a menu's line. */
export function languageName(code) {
  let name = code;
  try {
    name = new Intl.DisplayNames([language], { type: "language" }).of(code) ?? code;
  } catch {
    // not a language tag: what the model calls it will do
  }
  return name.charAt(0).toLocaleUpperCase(language) + name.slice(1);
}

/** `listener` is called now and whenever the language of the page changes, to update its text. */
export function whenLanguageChanges(listener) {
  listeners.push(listener);
}

/** Chooses the language: the one kept, else the browser's first that there is, else English. */
export async function startMessages() {
  const menu = named("interface-language");
  fill(menu, Object.entries(LANGUAGES).map(([value, text]) => ({ value, text })));
  const wished = [device.get("language"), ...navigator.languages].filter(Boolean);
  const first = wished.map((tag) => tag.split("-")[0].toLowerCase()).find((tag) => tag in LANGUAGES);
  menu.addEventListener("change", () => {
    device.set("language", menu.value);
    speak(menu.value);
  });
  await speak(first ?? "en");
}

async function speak(wanted) {
  const response = await fetch(new URL(`messages/${wanted}.json`, import.meta.url));
  if (!response.ok) return; // index.html is in English as it is
  messages = await response.json();
  language = wanted;
  document.documentElement.lang = wanted === "zh" ? "zh-Hans" : wanted;
  named("interface-language").value = wanted;
  write(document);
  for (const listener of listeners) listener();
}

/** Writes the messages that elements name: as their text, label or placeholder. */
function write(root) {
  for (const element of root.querySelectorAll("[data-message]")) {
    element.textContent = say(element.dataset.message);
  }
  for (const element of root.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", say(element.dataset.label));
    if (element.matches("button.icon")) element.title = say(element.dataset.label);
  }
  for (const element of root.querySelectorAll("[data-placeholder]")) {
    element.placeholder = say(element.dataset.placeholder);
  }
}
