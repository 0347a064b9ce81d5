// The page: a text is cut into sentences, each is translated here, and lines stay as they are.

import { Translator } from "./translator.js";

const named = (id) => document.getElementById(id);
const [source, output, placeholder] = ["source", "output", "placeholder"].map(named);
const [status, target, copy] = ["status", "target", "copy"].map(named);

const AT_ONCE = 8;
const MOST_KNOWN = 2000;
const PAUSE = 120; // milliseconds
let known = new Map(); // translations by language and sentence, so that typing translates one sentence at a time

let translator = null;
let wanted = 0;
let timer;

/** The languages that are translated into the one that is chosen. */
const sources = () => translator.settings.targets.find(({ language }) => language === target.value).sources;

/** The sentences of a text, and what is between them. */
function pieces(text) {
  const [language] = sources();
  const sentences = "Segmenter" in Intl ? new Intl.Segmenter(language || undefined, { granularity: "sentence" }) : null;
  return text.split("\n").flatMap((line, i) => {
    const found = sentences ? Array.from(sentences.segment(line), ({ segment }) => segment) : [line];
    return [...(i ? ["\n"] : []), ...found];
  });
}

/** The translations of pieces: those in `kept`, and others, which are kept then. */
async function translated(group, language, kept) {
  const key = (piece) => `${language} ${piece}`;
  const unknown = group.filter((piece) => !kept.has(key(piece)));
  const found = await translator.translateAll(unknown, language);
  unknown.forEach((piece, i) => kept.set(key(piece), found[i]));
  return group.map((piece) => kept.get(key(piece)));
}

/** Translate what is in the field, and show it as it comes; a newer text ends an older one. */
async function translate() {
  const own = ++wanted;
  if (known.size > MOST_KNOWN) known = new Map();
  const started = performance.now();
  const [language, kept, all] = [target.value, known, pieces(source.value)];
  let [written, n, nCut] = ["", 0, 0];
  output.setAttribute("aria-busy", "true");
  for (let start = 0; start < all.length; start += AT_ONCE) {
    const group = all.slice(start, start + AT_ONCE);
    const found = await translated(group, language, kept);
    if (own !== wanted) return;
    found.forEach(({ text, ids, cut }, i) => {
      n += ids.length > 0;
      nCut += cut;
      written += text.trimEnd() + (/\s+$/u.exec(group[i])?.[0] ?? "");
    });
    show(written);
  }
  show(written.trimEnd());
  output.setAttribute("aria-busy", "false");
  const seconds = ((performance.now() - started) / 1000).toFixed(2);
  const warning = nCut ? `; ${nCut} too long: only the beginning is translated` : "";
  status.textContent = n ? `${n} ${n === 1 ? "sentence" : "sentences"} in ${seconds} s${warning}` : "Ready";
}

/** Translate when no key has been pressed for a moment. */
function soon() {
  clearTimeout(timer);
  timer = setTimeout(() => void translate(), PAUSE);
}

function show(text) {
  output.textContent = text;
  placeholder.hidden = text !== "";
  copy.disabled = text === "";
}

function name(language) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(language);
  } catch {
    return language;
  }
}

function prepare() {
  const { targets } = translator.settings;
  target.replaceChildren(...targets.map(({ language }) => new Option(language ? name(language) : "Translation", language)));
  const follow = () => {
    const from = sources().filter(Boolean);
    named("source-language").textContent = from.map(name).join(" / ") || "Text";
    source.lang = from.length === 1 ? from[0] : "";
    output.lang = target.value;
    void translate();
  };
  target.addEventListener("change", follow);
  source.addEventListener("input", ({ isComposing }) => isComposing || soon());
  source.addEventListener("compositionend", soon);
  copy.addEventListener("click", () => navigator.clipboard.writeText(output.textContent));
  follow();
}

if ("serviceWorker" in navigator) navigator.serviceWorker.register("worker.js").catch(() => {}); // without it, only online
try {
  translator = await Translator.load();
  prepare();
} catch (error) {
  status.textContent = `The model cannot be loaded: ${error.message}`;
}
export { translator };
