// The page: a text is cut into sentences, each is translated here, and lines and spaces stay as they are.

import { Translator } from "./translator.js";

const named = (id) => document.getElementById(id);
const [source, output, placeholder, status, target, copy] = ["source", "output", "placeholder", "status", "target", "copy"].map(named);

let translator = null;
let wanted = 0;

/** The sentences of a text, and what is between them. */
function pieces(text) {
  const { source_language: language } = translator.settings;
  const sentences = "Segmenter" in Intl ? new Intl.Segmenter(language || undefined, { granularity: "sentence" }) : null;
  return text.split("\n").flatMap((line, i) => {
    const found = sentences ? Array.from(sentences.segment(line), ({ segment }) => segment) : [line];
    return [...(i ? ["\n"] : []), ...found];
  });
}

/** Translate what is in the field, and show it as it comes; a newer text ends an older one. */
async function translate() {
  const own = ++wanted;
  const text = source.value;
  const started = performance.now();
  let written = "";
  let n = 0;
  let nCut = 0;
  output.setAttribute("aria-busy", "true");
  for (const piece of pieces(text)) {
    const translated = await translator.translate(piece, target.value);
    if (own !== wanted) return;
    if (translated.ids.length) n += 1;
    nCut += translated.cut;
    written += translated.text + (/\s+$/u.exec(piece)?.[0] ?? "");
    show(written);
  }
  show(written.trimEnd());
  output.setAttribute("aria-busy", "false");
  const seconds = ((performance.now() - started) / 1000).toFixed(2);
  const warning = nCut ? `; ${nCut} too long: only the beginning is translated` : "";
  status.textContent = n ? `${n} ${n === 1 ? "sentence" : "sentences"} in ${seconds} s${warning}` : "Ready";
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
  const { source_language: from, targets } = translator.settings;
  named("source-language").textContent = from ? name(from) : "Text";
  source.lang = from;
  target.replaceChildren(...targets.map(({ language }) => new Option(language ? name(language) : "Translation", language)));
  const follow = () => {
    output.lang = target.value;
    void translate();
  };
  target.addEventListener("change", follow);
  source.addEventListener("input", ({ isComposing }) => isComposing || void translate());
  source.addEventListener("compositionend", () => void translate());
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
