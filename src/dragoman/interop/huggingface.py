"""Translators as Hugging Face's `transformers` loads them: Marian (post-norm), Pegasus (pre-norm).

Both are the Transformer of the paper with sinusoids, sines in the first half of the width and cosines in the
second, where ours take turns. Putting the even dimensions before the odd ones in everything that reads or
writes the residual stream makes one of the other, exactly. Forbidden tokens are a bias of the logits.

transformers has one tokenizer for both sides. Two vocabularies become one: the target's tokens behind the
source's, with a bias that forbids the source's to be written.
"""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.config import ModelConfig, SearchConfig, TranslationConfig
from dragoman.data.batching import pad, source_mask
from dragoman.errors import ConfigError, RunError, optional
from dragoman.files import write_atomically
from dragoman.interop.assembling import FAIRSEQ_LAYER, in_order, their_names
from dragoman.interop.foreign import ForeignFolder
from dragoman.interop.portable import TARGET, Spec, check_texts, pieces_of, portable, portable_pair, to_json
from dragoman.interop.settings import Setting
from dragoman.interop.torch_files import ForeignTensors, read_torch
from dragoman.model.architecture import SIDES, embedding_names, parameters
from dragoman.model.layers import sinusoids
from dragoman.predict.engine import FORBIDDEN, SearchInput
from dragoman.predict.translator import Translator
from dragoman.runs import Run
from dragoman.tensors import load_tensors, save_tensors
from dragoman.text.slots import SLOTS
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, TokenizerPair
from dragoman.text.vocabulary import MARK, SPECIAL_TOKENS

FORBIDDING = -1e9
"""The bias of a token that is never written; -inf would become NaN in some of their searches."""

NORM_EPS = 1e-5
"""What layer norm adds to the variance there: PyTorch's default."""

TYPICAL_PENALTY = 20 / (20 + 5)
"""p over alpha where log-probability / length^p, as there, and / ((5 + length) / 6)^alpha, as here, weigh the
length of 20 tokens alike."""

NAMES = {
    "src_embedding": "model.encoder.embed_tokens",
    "tgt_embedding": "model.decoder.embed_tokens",
    "output": "lm_head",
    "layer": "model.*.layers.#",
    **FAIRSEQ_LAYER,
    "norm": "model.*.layer_norm",
}
"""What Marian and Pegasus call the parts of a model."""

SETTINGS = {
    "d_model": Setting("d_model", int),
    "d_ff": Setting("*_ffn_dim", int),
    "n_heads": Setting("*_attention_heads", int),
    "n_encoder_layers": Setting("encoder_layers", int),
    "n_decoder_layers": Setting("decoder_layers", int),
    "max_positions": Setting("max_position_embeddings", 1024),
    "dropout": Setting("dropout", 0.1),
    "attention_dropout": Setting("attention_dropout", 0.0),
    "activation_dropout": Setting("activation_dropout", 0.0),
    "activation": Setting(
        "activation_function", "gelu", {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
    ),
    "scale_embeddings": Setting("scale_embedding", False),
}
"""Settings of config.json that ours have as well, read by the importer and written by the export."""


def halves(d_model: int) -> Tensor:
    """(D,): the even dimensions, then the odd ones."""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def order_of_width(config: ModelConfig) -> Tensor:
    """(D,): which of our dimensions stands at each place of theirs.

    ConfigError: positions that Marian, which computes its own, cannot have.
    """
    if config.positions == "sinusoidal":
        return halves(config.d_model)
    if config.norm == "pre":
        return torch.arange(config.d_model)  # Pegasus keeps a table, whatever is in it
    raise ConfigError(
        f'model.positions = "{config.positions}" with model.norm = "post": Marian, the post-norm model of '
        "transformers, computes sinusoids and keeps no table; export to ctranslate2 or onnx"
    )


def to_huggingface(config: ModelConfig, weights: Mapping[str, Tensor], *, shared: bool) -> dict[str, Tensor]:
    """Return the weights of a model, by our names, as Marian or Pegasus has them. `shared`: one vocabulary.

    A matrix that the other side ties is there once. ConfigError: positions or norms that it cannot have.
    """
    if config.norm_eps != NORM_EPS:
        raise ConfigError(
            f"model.norm_eps = {config.norm_eps:g}: the models of transformers that are like it have "
            f"{NORM_EPS:g}; export to ctranslate2 or onnx"
        )
    order = order_of_width(config)
    src, tgt, output = (weights[name][:, order] for name in embedding_names(config))
    theirs: dict[str, Tensor] = {}
    for parameter in parameters(config, len(src), len(tgt)):
        if parameter.side:
            names = their_names(NAMES, parameter)
            tensor = in_order(weights[parameter.name], parameter.axes, order)
            theirs |= zip(names, tensor.chunk(len(names)), strict=True)
    for side, prefix in SIDES.items():
        table = weights.get(f"{prefix}_embedding.positions")
        if table is None and config.norm == "pre":  # Pegasus asks for it
            table = sinusoids(config.max_positions, config.d_model)
        if table is not None:
            theirs[f"model.{side}.embed_positions.weight"] = table[:, order]
    bias = weights["output.bias"].clone() if config.output_bias else torch.zeros(len(output))
    bias[list(FORBIDDEN)] = FORBIDDING
    if not shared:
        tied = config.tie_embeddings == "output"
        bias = torch.cat([torch.full((len(src),), FORBIDDING), bias])
        output = torch.cat([src if tied else torch.zeros_like(src), output])
        src = tgt = torch.cat([src, tgt])
    theirs["final_logits_bias"] = bias[None, :]
    if ties_all(config, shared=shared):
        return theirs | {"model.shared.weight": src}
    theirs |= {"model.encoder.embed_tokens.weight": src, "model.decoder.embed_tokens.weight": tgt}
    if config.norm == "pre":
        theirs["model.shared.weight"] = src  # not used, and asked for
    return theirs | {"lm_head.weight": output}


def read_weights(folder: ForeignFolder) -> ForeignTensors:
    """Read the weights in a folder of transformers. RunError: there are none, or the file is damaged."""
    for name, read_file in (("model.safetensors", load_tensors), ("pytorch_model.bin", read_torch)):
        if folder.has(name):
            return ForeignTensors(read_file(folder.file(name)), where=folder.path / name)
    raise RunError(f"{folder.path}: holds neither model.safetensors nor pytorch_model.bin; is it complete?")


def ties_all(config: ModelConfig, *, shared: bool) -> bool:
    """Their three matrices are one: two vocabularies, one behind the other, count as one."""
    return config.tie_embeddings == "all" or (config.tie_embeddings == "output" and not shared)


def first_target_id(config: TranslationConfig, tokenizers: TokenizerPair) -> int:
    """Return where the target's ids begin: of two vocabularies, behind the source's."""
    return 0 if config.tokenizer.shared else tokenizers.src.vocab_size


def model_config(config: TranslationConfig, tokenizers: TokenizerPair) -> dict[str, Any]:
    """Return the content of config.json."""
    model, first = config.model, first_target_id(config, tokenizers)
    n_ids = first + tokenizers.tgt.vocab_size
    all_tied = ties_all(model, shared=config.tokenizer.shared)
    architecture: dict[str, Any] = {
        "model_type": "pegasus", "architectures": ["PegasusForConditionalGeneration"],
    } if model.norm == "pre" else {
        "model_type": "marian", "architectures": ["MarianMTModel"],
        "decoder_vocab_size": n_ids, "share_encoder_decoder_embeddings": all_tied,
    }  # fmt: skip
    settings = {
        setting.name.replace("*", side): getattr(model, ours)
        for ours, setting in SETTINGS.items()
        for side in SIDES
    }
    return architecture | settings | {
        "vocab_size": n_ids, "tie_word_embeddings": all_tied, "is_encoder_decoder": True, "dtype": "float32",
        "pad_token_id": PAD_ID, "bos_token_id": first + BOS_ID, "decoder_start_token_id": first + BOS_ID,
        "eos_token_id": first + EOS_ID, "forced_eos_token_id": None,
    }  # fmt: skip


def generation_config(search: SearchConfig, model: Mapping[str, Any]) -> dict[str, Any]:
    """generation_config.json: `generate` searches as the run does, as nearly as it can.

    Its length penalty is another formula (TYPICAL_PENALTY).
    """
    ids = ("pad_token_id", "bos_token_id", "decoder_start_token_id", "eos_token_id")
    settings: dict[str, Any] = {name: model[name] for name in ids}
    settings |= {"num_beams": search.beam_size, "max_length": model["max_position_embeddings"]}
    settings["forced_eos_token_id"] = model["eos_token_id"]  # as in Marian: the longest translation ends
    settings["min_new_tokens"] = 1  # no translation is empty
    if search.beam_size > 1:
        settings["length_penalty"] = search.length_penalty * TYPICAL_PENALTY
    return settings


def marian_tokenizer_files(folder: Path, config: TranslationConfig) -> dict[str, bytes]:
    """vocab.json and two sentencepiece models, as they came with an imported model: for MarianTokenizer.

    It reads reserved tokens in the text, as ">>deu<<". ConfigError: there is no equal.
    """
    if not config.tokenizer.shared:
        raise ConfigError(
            f"{folder}: two vocabularies of sentencepiece are beyond what transformers keeps beside such a "
            "model; export to ctranslate2 or onnx"
        )
    if not config.model.source_end:
        raise ConfigError(
            f"{folder}: MarianTokenizer writes an end token behind every source, which this model does not "
            "read (model.source_end); export to ctranslate2 or onnx"
        )
    sides = ("shared", "shared") if (folder / "shared.json").exists() else ("src", "tgt")
    source, target = (json.loads((folder / f"{side}.json").read_text(encoding="utf-8")) for side in sides)
    src_lang, tgt_lang = config.languages
    settings = {
        "tokenizer_class": "MarianTokenizer", "source_lang": src_lang, "target_lang": tgt_lang,
        "pad_token": SPECIAL_TOKENS[PAD_ID], "eos_token": SPECIAL_TOKENS[EOS_ID],
        "unk_token": SPECIAL_TOKENS[UNK_ID], "separate_vocabs": False,
        "model_max_length": config.model.max_positions,
    }  # fmt: skip
    return {
        "source.spm": base64.b64decode(source["sentencepiece"]),
        "target.spm": base64.b64decode(target["sentencepiece"]),
        "vocab.json": as_json({piece: i for i, piece in enumerate(source["vocabulary"])}),
        "tokenizer_config.json": as_json(settings),
    }


def tokenizer_folder(folder: Path, config: TranslationConfig, language: str) -> Path:
    """Return the folder, within that of a model, with the tokenizer for a target language.

    It is `folder` itself for a model of one, and where a text says its language (`marian_tokenizer_files`).
    """
    is_only = len(config.targets) == 1 or "sentencepiece" in config.tokenizer.kinds
    return folder if is_only else folder / f"to-{language}"


def fast_tokenizer_files(
    folder: Path, config: TranslationConfig, before: Mapping[str, int]
) -> dict[str, bytes]:
    """tokenizer.json and tokenizer_config.json; the reserved tokens `before` come before every text.

    Special tokens are marked as such, so that `decode` can leave them away, and are yet only text where a
    user writes them. ConfigError: a kind that `tokenizers` cannot do.
    """
    spec: Spec
    end, slots = config.model.source_end, "".join(SLOTS) * (config.modifiers.slots > 0)
    if config.tokenizer.shared:
        spec = portable(folder / "shared.json", end=end, before=before, slots=slots)
        special = list(SPECIAL_TOKENS)
    else:
        spec = portable_pair(folder / "src.json", folder / "tgt.json", end=end, before=before, slots=slots)
        special = [*SPECIAL_TOKENS, *(TARGET + token for token in SPECIAL_TOKENS)]
    special += [piece for piece in pieces_of(spec) if MARK.fullmatch(piece)]
    spec["added_tokens"] = [
        {
            "id": i, "content": piece, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True,
        }
        for i, piece in enumerate(pieces_of(spec)) if piece in special
    ]  # fmt: skip
    pad, bos, eos, unk = SPECIAL_TOKENS
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": pad, "bos_token": bos, "eos_token": eos,
        "unk_token": unk, "additional_special_tokens": special[4:], "split_special_tokens": True,
        "clean_up_tokenization_spaces": False, "model_max_length": config.model.max_positions,
        "model_input_names": ["input_ids", "attention_mask"], "padding_side": "right",
    }  # fmt: skip
    return {"tokenizer.json": to_json(spec).encode(), "tokenizer_config.json": as_json(settings)}


def write_huggingface(run: Run, translator: Translator, folder: Path) -> None:
    """Write what transformers loads into `folder`. ConfigError: something cannot be expressed."""
    config, tokenizers = translator.config, translator.tokenizers
    weights = {name: tensor.detach() for name, tensor in translator.model.named_parameters()}
    described = model_config(config, tokenizers)
    write_atomically(folder / "config.json", as_json(described))
    generation = as_json(generation_config(config.search, described))
    write_atomically(folder / "generation_config.json", generation)
    save_tensors(
        folder / "model.safetensors", to_huggingface(config.model, weights, shared=config.tokenizer.shared)
    )
    is_marian = "sentencepiece" in config.tokenizer.kinds
    places = {language: tokenizer_folder(folder, config, language) for language in config.targets}
    for language, place in places.items():
        place.mkdir(exist_ok=True)
        if is_marian:
            files = marian_tokenizer_files(run.tokenizer_folder, config)
        else:
            before = tokenizers.towards(language).src.before
            files = fast_tokenizer_files(run.tokenizer_folder, config, before)
        for name, content in files.items():
            write_atomically(place / name, content)
    if folder not in places.values():  # else one would be made up
        names = ", ".join(place.name for place in places.values())
        refusal = {"version": f"none here: load that of a target language, {names}", "added_tokens": []}
        write_atomically(folder / "tokenizer.json", as_json(refusal))
        write_atomically(
            folder / "tokenizer_config.json", as_json({"tokenizer_class": "PreTrainedTokenizerFast"})
        )


class HuggingFaceEngine:
    """A model that `write_huggingface` wrote, in transformers."""

    def __init__(self, folder: Path, *, first: int, source_end: bool) -> None:
        """`first` is the `first_target_id`; without `source_end` the encoder reads no end token."""
        with quiet_transformers() as transformers:
            loader = transformers.AutoModelForSeq2SeqLM
            self.model = loader.from_pretrained(folder, local_files_only=True).eval()
        self.first, self.source_end = first, source_end

    def greedy(self, sentences: Sequence[SearchInput], longest: int) -> list[list[int]]:
        """As `ExportedModel`, by `generate`."""
        with quiet_transformers():
            rows = self.model.generate(
                **self._read([s.source for s in sentences]),
                num_beams=1,
                max_new_tokens=longest,
                forced_eos_token_id=None,
            )
        eos_id = self.first + EOS_ID
        ended = (takewhile(lambda i: i != eos_id, row[1:]) for row in rows.tolist())  # behind the start
        return [[i - self.first for i in row] for row in ended]

    @torch.inference_mode()
    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """As `ExportedModel`."""
        tgt_in, tgt_out = pad([[BOS_ID, *ids] for ids in targets]), pad([[*ids, EOS_ID] for ids in targets])
        output = self.model(**self._read(sources), decoder_input_ids=self.first + tgt_in)
        log_probs = output.logits.log_softmax(-1).gather(2, self.first + tgt_out[:, :, None])[:, :, 0]
        return [row[: len(ids) + 1].tolist() for row, ids in zip(log_probs, targets, strict=True)]

    def _read(self, sources: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        """Return what the encoder reads: ids (B, S), padding where the model does not look, and the mask."""
        src = pad(sources)
        mask = source_mask(src, with_end=self.source_end)
        return {"input_ids": src.masked_fill(~mask, PAD_ID), "attention_mask": mask.long()}


def check_tokenizer(
    folder: Path, tokenizers: TokenizerPair, texts: Sequence[str], *, first: int, end: bool
) -> None:
    """Read and write `texts` with AutoTokenizer. RunError: otherwise than the run does."""
    with quiet_transformers() as transformers:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    check_texts(
        lambda text: tokenizer(text).input_ids,
        lambda ids: tokenizer.decode([first + i for i in ids], skip_special_tokens=True),
        tokenizers,
        texts,
        end=end,
        where="AutoTokenizer",
    )


@contextmanager
def quiet_transformers() -> Iterator[Any]:
    """Import transformers, without its bars and recommendations. MissingExtraError: it is not installed."""
    transformers = optional("transformers", extra="huggingface", purpose="exporting to Hugging Face")
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield transformers
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def as_json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
