// The attention of the model as a picture: how much each piece of the translation looked at each of the source.

import { draw, fill, make, named, open } from "./elements.js";
import { locale, say } from "./messages.js";
import { attend } from "./service.js";

/** Sizes of the picture, in its own units: a cell, and a character of a label. */
const CELL = 30;
const CHARACTER = 8.8;

/** How many pieces of the source the words name for one of the translation, and from which share on. */
const N_NAMED = 3;
const WORTH_NAMING = 0.05;

/** The mean of all heads, or of all layers, in a menu. */
const MEAN = "mean";

export class Attention {
  #abort = null;
  #found = null;

  constructor(translation) {
    this.translation = translation;
    this.dialog = named("attention");
    this.menus = ["sentence", "layer", "head"].map((name) => named(`attention-${name}`));
    const [sentence, layer, head] = this.menus;
    sentence.addEventListener("change", () => this.#ask());
    for (const menu of [layer, head]) menu.addEventListener("change", () => this.#draw());
    this.dialog.addEventListener("close", () => this.#abort?.abort());
  }

  /** The sentences that have a translation. */
  get sentences() {
    const all = this.translation.lines.flatMap((line) => line.sentences);
    return all.filter(({ state, text }) => state === "done" && text.trim());
  }

  open() {
    const sentences = this.sentences;
    if (sentences.length === 0) return;
    this.shown = sentences;
    const options = sentences.map(({ source }, i) => ({ value: String(i), text: `${i + 1}. ${source}` }));
    fill(this.menus[0], options, "0");
    named("attention-sentence-label").hidden = sentences.length < 2;
    open(this.dialog);
    this.#ask();
  }

  async #ask() {
    this.#abort?.abort();
    this.#abort = new AbortController();
    const sentence = this.shown[Number(this.menus[0].value)];
    this.#clear();
    named("attention-state").textContent = say("attention.asking");
    try {
      const { model, source, target } = this.translation.direction;
      const request = { model, to: `${source}-${target}`, text: sentence.source, target: sentence.text };
      this.#found = await attend(request, this.#abort.signal);
      named("attention-state").textContent = "";
      this.#offer();
      this.#draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#clear();
      named("attention-state").textContent = error.message
        ? say("error.said", { message: error.message })
        : say("error.unreachable");
    }
  }

  #clear() {
    named("attention-picture").replaceChildren();
    named("attention-rows").replaceChildren();
  }

  #offer() {
    const { weights } = this.#found;
    const numbers = (n) => Array.from({ length: n }, (_, i) => ({ value: String(i), text: String(i + 1) }));
    const [, layer, head] = this.menus;
    const all = { value: MEAN, text: say("attention.mean") };
    const fresh = layer.options.length === 0;
    fill(layer, [all, ...numbers(weights.length)], fresh ? String(weights.length - 1) : layer.value);
    fill(head, [all, ...numbers(weights[0].length)], fresh ? MEAN : head.value);
  }

  /** (T, S): the weights of the layers and heads that are chosen, or their mean. */
  #matrix() {
    const { weights } = this.#found;
    const [, layer, head] = this.menus;
    const layers = layer.value === MEAN ? weights : [weights[Number(layer.value)]];
    const heads = layers.flatMap((of) => (head.value === MEAN ? of : [of[Number(head.value)]]));
    return heads[0].map((row, t) => row.map((_, s) => heads.reduce((sum, of) => sum + of[t][s], 0) / heads.length));
  }

  #draw() {
    const matrix = this.#matrix();
    const source = this.#found.source_tokens.map(readable);
    const target = this.#found.target_tokens.map(readable);
    named("attention-picture").replaceChildren(picture(matrix, source, target));
    named("attention-rows").replaceChildren(
      ...matrix.map((row, t) =>
        make(
          "tr",
          {},
          make("th", { scope: "row", textContent: target[t], dir: "auto" }),
          make("td", { textContent: looked(row, source), dir: "auto" }),
        ),
      ),
    );
  }
}

/** A piece as people read it: one that goes on a word begins with a dot, the end has a sign, a byte is a letter. */
function readable(named_, i, all) {
  const [piece, ...pieces] = [named_, ...all].map((each) =>
    each.replace(/<0x([2-7][0-9A-F])>/gu, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
  );
  if (/^(<\/s>|<eos>|\[EOS\])$/iu.test(piece)) return "■";
  const spaced = pieces.some((other) => /^[▁Ġ ]/u.test(other));
  if (/^[▁Ġ ]/u.test(piece)) return piece.slice(1) || "␣";
  return spaced && i > 0 && /^[\p{L}\p{N}]/u.test(piece) ? `·${piece}` : piece;
}

/** The pieces looked at most, with their shares. */
function looked(row, source) {
  const order = row.map((weight, s) => [weight, s]).sort(([one], [other]) => other - one);
  const worth = order.slice(0, N_NAMED).filter(([weight], i) => i === 0 || weight >= WORTH_NAMING);
  const share = (weight) => weight.toLocaleString(locale(), { style: "percent" });
  return worth.map(([weight, s]) => `${source[s]} ${share(weight)}`).join(", ");
}

/** A cell for each pair of pieces, the stronger its colour the more weight. */
function picture(matrix, source, target) {
  const longest = (pieces) => Math.max(...pieces.map((piece) => Array.from(piece).length));
  const left = longest(target) * CHARACTER + 12;
  const top = longest(source) * CHARACTER + 12;
  const [width, height] = [left + source.length * CELL + 12, top + target.length * CELL + 4];
  const label = say("attention.described", { rows: target.length, columns: source.length });
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  source.forEach((piece, s) => {
    const x = left + (s + 0.5) * CELL;
    const turned = { x, y: top - 8, transform: `rotate(-90 ${x} ${top - 8})`, "dominant-baseline": "central" };
    svg.append(draw("text", turned, piece));
  });
  target.forEach((piece, t) => {
    const y = top + (t + 0.5) * CELL;
    svg.append(draw("text", { x: left - 8, y, "text-anchor": "end", "dominant-baseline": "central" }, piece));
    matrix[t].forEach((weight, s) => svg.append(cell(left + s * CELL, top + t * CELL, weight, piece, source[s])));
  });
  return svg;
}

function cell(x, y, weight, target, source) {
  const share = weight.toLocaleString(locale(), { style: "percent" });
  const box = { x: x + 1, y: y + 1, width: CELL - 2, height: CELL - 2, rx: 3 };
  const group = draw("g", {}, draw("title", {}, `${target} ← ${source}: ${share}`));
  group.append(draw("rect", { ...box, class: "empty" }));
  group.append(draw("rect", { ...box, class: "weight", "fill-opacity": weight.toFixed(3) }));
  return group;
}
