// The model: two graphs that onnxruntime-web runs, and Dragoman's greedy search over them.

import * as ort from "./onnxruntime/ort.js";
import { END, PAD, START, Tokenizer, normalise, withoutControls } from "./tokenizer.js";
import { Transformations } from "./transformations.js";

async function get(name) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: HTTP ${response.status}`);
  return response;
}

const json = async (name) => (await get(name)).json();
const bytes = async (name) => new Uint8Array(await (await get(name)).arrayBuffer());

export class Translator {
  /** Load all files beside this one; an Error names the one that is missing. */
  static async load() {
    const settings = await json("model.json");
    const [source, target] = await Promise.all(settings.tokenizers.map(json));
    const [wasm, ...graphs] = await Promise.all(
      ["onnxruntime/ort.wasm", "encoder.onnx", "decoder.onnx"].map(bytes),
    );
    ort.env.wasm.numThreads = 1; // more need headers that servers of static files do not send
    ort.env.wasm.wasmBinary = wasm;
    const options = { executionProviders: ["wasm"] };
    const [encoder, decoder] = [
      await ort.InferenceSession.create(graphs[0], options),
      await ort.InferenceSession.create(graphs[1], options),
    ];
    return new Translator(settings, source, target, encoder, decoder);
  }

  constructor(settings, source, target, encoder, decoder) {
    this.settings = settings;
    const { lists, ...patterns } = settings.transformations;
    const slots = Object.values(lists)[0].find(({ kind }) => kind === "slots")?.tokens;
    this.source = new Tokenizer(source, slots);
    this.target = new Tokenizer(target, slots, settings.silent);
    const encode = (word) => this.source.encode(word);
    this.transformations = Object.fromEntries(
      Object.entries(lists).map(([language, list]) => [language, new Transformations(patterns, list, encode)]),
    );
    this.encoder = encoder;
    this.decoder = decoder;
  }

  /** The ids that the model reads, what its answer gets back, and whether `text` had too much or nothing to read. */
  read(text, language = this.settings.targets[0].language) {
    const { before } = this.settings.targets.find((one) => one.language === language);
    const { text: usual, ...kept } = this.transformations[language].read(text);
    const ids = /\p{L}/u.test(text) ? this.source.encode(usual) : [];
    const end = this.settings.source_end ? [END] : [];
    const longest = this.settings.max_positions - before.length - 1;
    const cut = ids.length > longest;
    return { ids: [...before, ...ids.slice(0, longest), ...end], kept, cut, empty: !ids.length };
  }

  /** Translate one sentence. A text without a letter is copied; one of white space has an empty translation. */
  async translate(text, language) {
    return (await this.translateAll([text], language))[0];
  }

  /** Translate sentences at once, which is faster; the last digits of probabilities depend on all of them. */
  async translateAll(texts, language = this.settings.targets[0].language) {
    const read = texts.map((text) => this.read(text, language));
    const filled = read.filter(({ empty }) => !empty);
    const written = filled.length ? await this.search(filled.map(({ ids }) => ids)) : [];
    return read.map(({ cut, empty, kept }, i) => {
      if (empty) return { text: normalise(texts[i]) && withoutControls(texts[i]), ids: [], cut };
      const ids = written.shift();
      return { text: this.transformations[language].written(this.target.decode(ids), kept), ids, cut };
    });
  }

  /** The most probable token at each step, the lowest of equally probable ones: dragoman.decoding.greedy_search. */
  async search(sources) {
    const longest = Math.max(...sources.map((ids) => ids.length));
    const padded = sources.flatMap((ids) => [...ids, ...Array(longest - ids.length).fill(PAD)]);
    const ofSource = await this.encoder.run({ ids: integers(padded, [sources.length, longest]) });
    let past = {};
    for (const name of this.encoder.outputNames.filter((one) => one.startsWith("cross."))) {
      const [n, heads, , width] = ofSource[name].dims;
      past[name.replace("cross", "past")] = new ort.Tensor("float32", new Float32Array(0), [n, heads, 0, width]);
    }
    const rows = sources.map((ids) => ({ limit: this.#limit(ids), written: [], last: START }));
    for (let unfinished = rows; unfinished.length; ) {
      const last = integers(rows.map((row) => row.last), [rows.length]);
      const { log_probs, ...present } = await this.decoder.run({ last, ...past, ...ofSource });
      past = Object.fromEntries(Object.entries(present).map(([name, kept]) => [name.replace("present", "past"), kept]));
      const size = log_probs.dims[1];
      for (const row of unfinished) {
        const i = rows.indexOf(row);
        row.last = highest(log_probs.data.subarray(i * size, (i + 1) * size), { end: row.written.length > 0 });
        if (row.last !== END) row.written.push(row.last);
      }
      unfinished = unfinished.filter((row) => row.last !== END && row.written.length < row.limit);
    }
    return rows.map(({ written }) => written);
  }

  /** The most tokens of a translation of the source `ids`, the end not counted. */
  #limit(ids) {
    const { max_length_factor, max_length_extra, max_positions, source_end } = this.settings;
    const nTokens = ids.length - (source_end ? 1 : 0);
    return Math.min(max_positions - 1, Math.trunc(max_length_factor * nTokens) + max_length_extra);
  }
}

const integers = (values, dims) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), dims);

/** The place of the first highest value; END only where a translation may end. */
function highest(values, { end }) {
  let best = -Infinity;
  let at = END;
  for (let i = 0; i < values.length; i++) {
    if (values[i] > best && (end || i !== END)) [best, at] = [values[i], i];
  }
  return at;
}
