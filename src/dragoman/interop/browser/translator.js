// The model: two graphs that onnxruntime-web runs, and Dragoman's greedy search over them.

import * as ort from "./onnxruntime/ort.js";
import { END, START, Tokenizer } from "./tokenizer.js";

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
    const [wasm, weights, ...graphs] = await Promise.all(
      ["onnxruntime/ort.wasm", "weights.bin", "encoder.onnx", "decoder.onnx"].map(bytes),
    );
    ort.env.wasm.numThreads = 1; // more need headers that servers of static files do not send
    ort.env.wasm.wasmBinary = wasm;
    const options = { executionProviders: ["wasm"], externalData: [{ path: "weights.bin", data: weights }] };
    const [encoder, decoder] = [
      await ort.InferenceSession.create(graphs[0], options),
      await ort.InferenceSession.create(graphs[1], options),
    ];
    return new Translator(settings, source, target, encoder, decoder);
  }

  constructor(settings, source, target, encoder, decoder) {
    this.settings = settings;
    this.source = new Tokenizer(source);
    this.target = new Tokenizer(target, settings.silent);
    this.encoder = encoder;
    this.decoder = decoder;
  }

  /** The ids that the model reads, and whether `text` had more than it can read. */
  read(text, language = this.settings.targets[0].language) {
    const { before } = this.settings.targets.find((one) => one.language === language);
    const ids = this.source.encode(text);
    const end = this.settings.source_end ? [END] : [];
    const longest = this.settings.max_positions - before.length - 1;
    return { ids: [...before, ...ids.slice(0, longest), ...end], cut: ids.length > longest };
  }

  /** Translate one sentence. A text of white space has an empty translation. */
  async translate(text, language) {
    const { ids, cut } = this.read(text, language);
    if (!this.source.encode(text).length) return { text: "", ids: [], cut };
    const written = await this.search(ids);
    return { text: this.target.decode(written), ids: written, cut };
  }

  /** The most probable token at each step, the lowest of equally probable ones: dragoman.decoding.greedy. */
  async search(ids) {
    const row = (values) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
    const ofSource = await this.encoder.run({ ids: row(ids) });
    let past = {};
    for (const name of this.encoder.outputNames.filter((one) => one.startsWith("cross."))) {
      const [, heads, , width] = ofSource[name].dims;
      past[name.replace("cross", "past")] = new ort.Tensor("float32", new Float32Array(0), [1, heads, 0, width]);
    }
    const limit = this.#limit(ids);
    const written = [];
    let last = START;
    while (written.length < limit) {
      const start = new ort.Tensor("int64", BigInt64Array.of(BigInt(last)), [1]);
      const given = await this.decoder.run({ last: start, ...past, ...ofSource });
      last = highest(given.log_probs.data, { end: written.length > 0 });
      if (last === END) break;
      written.push(last);
      past = {};
      for (const [name, tensor] of Object.entries(given)) {
        if (name.startsWith("present.")) past[name.replace("present", "past")] = tensor;
      }
    }
    return written;
  }

  /** The most tokens of a translation of the source `ids`, the end not counted. */
  #limit(ids) {
    const { max_length_factor, max_length_extra, max_positions, source_end } = this.settings;
    const nTokens = ids.length - (source_end ? 1 : 0);
    return Math.min(max_positions - 1, Math.trunc(max_length_factor * nTokens) + max_length_extra);
  }
}

/** The place of the first highest value; END only where a translation may end. */
function highest(values, { end }) {
  let best = -Infinity;
  let at = END;
  for (let i = 0; i < values.length; i++) {
    if (values[i] > best && (end || i !== END)) [best, at] = [values[i], i];
  }
  return at;
}
