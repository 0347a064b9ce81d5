// The page of `dragoman serve`: what is on it, put together. Nothing it does leaves the service it came from.

import { Access } from "./access.js";
import { Alignment } from "./alignment.js";
import { Alternatives } from "./alternatives.js";
import { Classification } from "./classification.js";
import { copied } from "./clipboard.js";
import { Documents } from "./documents.js";
import { named } from "./elements.js";
import { History } from "./history.js";
import { Directions } from "./languages.js";
import { say, startMessages, whenLanguageChanges } from "./messages.js";
import { Notice } from "./notice.js";
import { Output } from "./output.js";
import { served } from "./service.js";
import { device, tab } from "./settings.js";
import { listen, openShortcuts } from "./shortcuts.js";
import { translationField } from "./source.js";
import { Terms } from "./terms.js";
import { Translation } from "./translation.js";
import { offerViews, showView } from "./views.js";

/** Milliseconds that a translation stands before it is history. */
const SETTLED = 1500;

const notice = new Notice();
const access = new Access();
const directions = new Directions(() => translateNow());
const source = translationField((text) => typed(text));
const output = new Output((element, whole) => alternatives.open(element, whole));
const terms = new Terms(directions, () => translateNow());
const translation = new Translation(directions, terms, {
  began: () => (named("working").hidden = false),
  changed: showTranslation,
  ended,
  failed: (error) => failed(error, () => translateNow()),
});
const alternatives = new Alternatives(translation, (error) => failed(error, null));
const alignment = new Alignment(source, output, () => translation.lines);
const history = new History(restore);
const classification = new Classification({ failed, well: () => notice.clear() });
const documents = new Documents(directions, {
  wantsKey: () => access.ask({ refused: access.has }),
  shown: () => named("documents-view").hidden && (location.hash = "documents"),
});
let settling = null;

function typed(text) {
  alternatives.close();
  alignment.clear();
  output.hush();
  clearTimeout(settling);
  tab.set("draft", text);
  named("clear").hidden = text === "";
  if (source.tooLong) return failed(null);
  translation.change(text);
}

function translateNow() {
  if (!named("classify-view").hidden) return classification.now();
  alternatives.close();
  if (source.tooLong) return failed(null);
  translation.now(source.text);
}

/** Shows the line that has changed; null: all of them. */
function showTranslation(line = null) {
  const language = directions.sourceLanguage ?? "";
  if (source.field.lang !== language) source.field.lang = language;
  output.show(() => translation.lines, line, translation.direction?.target);
}

/** A translation is whole: it can be copied, heard, and is kept after a while. */
function ended() {
  notice.clear();
  named("working").hidden = true;
  const { text } = translation;
  const there = text.trim() !== "";
  named("copy").disabled = !there;
  named("legend").hidden = !(output.confidence && there);
  source.mark(translation.lines);
  output.announce(text);
  clearTimeout(settling);
  settling = setTimeout(keep, SETTLED);
}

function keep() {
  if (!translation.done || !translation.direction) return;
  history.add({ ...translation.direction, text: source.text, translation: translation.text });
}

/** Says what is wrong; null: the text is too long. The text itself stays as it is. */
function failed(error, retry) {
  named("working").hidden = true;
  if (error === null) {
    translation.stop();
    return notice.show(say("error.long"));
  }
  if (error.wantsKey) {
    return access.ask({ refused: access.has, then: retry ?? (() => translateNow()) });
  }
  notice.explain(error, retry);
}

function restore(entry) {
  location.hash = "text";
  directions.take(entry);
  source.text = entry.text;
  typed(entry.text);
  translateNow();
  source.field.focus();
}

function swap() {
  if (!directions.swaps) return;
  const { text } = translation;
  directions.turn();
  if (text.trim()) source.text = text;
  typed(source.text);
  translateNow();
}

function copy() {
  keep();
  copied(translation.text);
}

function showConfidence(on) {
  output.confidence = on;
  device.set("confidence", on ? "yes" : "no");
  named("confidence").setAttribute("aria-pressed", String(on));
  named("legend").hidden = !(on && translation.text.trim());
  showTranslation();
}

function showTheme(theme) {
  document.documentElement.dataset.theme = theme;
  named("theme").setAttribute("aria-pressed", String(theme === "dark"));
}

function turnTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  device.set("theme", theme);
  showTheme(theme);
}

/** Asks what is served, and shows it. */
async function start() {
  try {
    const { models, limits, needs_key, formats } = await served();
    notice.clear();
    access.needed = needs_key;
    const classifiers = models.filter(({ task }) => task === "classification");
    const translates = models.length > classifiers.length;
    directions.models = models;
    source.limit = limits.characters;
    terms.most = limits.glossary_entries;
    documents.accept(formats, limits.file_bytes);
    classification.serve(classifiers, limits.characters);
    offerViews({
      text: translates,
      documents: translates && formats.length > 0,
      classify: classifiers.length > 0,
    });
    if (needs_key && !access.has) access.ask({ then: () => translateNow() });
    else if (source.text) translateNow();
  } catch (error) {
    failed(error, start);
  }
}

named("clear").addEventListener("click", () => {
  source.text = "";
  typed("");
  source.field.focus();
});
source.field.addEventListener("paste", () => setTimeout(translateNow));
named("swap").addEventListener("click", swap);
named("copy").addEventListener("click", copy);
named("confidence").addEventListener("click", () => showConfidence(!output.confidence));
named("open-history").addEventListener("click", () => history.open());
named("open-terms").addEventListener("click", () => terms.open());
named("open-shortcuts").addEventListener("click", openShortcuts);
named("theme").addEventListener("click", turnTheme);
addEventListener("hashchange", showView);
listen({
  translate: translateNow,
  source: () => source.field.focus(),
  output: () => output.root.querySelector('[tabindex="0"]')?.focus(),
  swap,
  copy,
  confidence: () => showConfidence(!output.confidence),
  history: () => history.open(),
  theme: turnTheme,
});
whenLanguageChanges(() => {
  directions.refresh();
  documents.refresh();
  terms.refresh();
  source.refresh();
  classification.refresh();
  source.mark(translation.lines);
  showTranslation();
});

showTheme(document.documentElement.dataset.theme);
await startMessages();
source.text = tab.get("draft", "");
named("clear").hidden = source.text === "";
showConfidence(device.get("confidence") === "yes");
await start();
const free = document.activeElement === document.body && !document.querySelector("dialog[open]");
if (free && !matchMedia("(pointer: coarse)").matches) source.field.focus({ preventScroll: true }); // type at once
