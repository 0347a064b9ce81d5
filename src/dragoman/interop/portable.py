"""Export Dragoman's tokenizers as a `tokenizer.json` for Hugging Face's `tokenizers`.

Such a file also normalises (NFC, single spaces, no control characters), which Dragoman does around a
tokenizer, and writes the end token behind a text. It gives the ids that Dragoman gives, and back the text
that Dragoman gives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from dragoman.config import TranslationConfig
from dragoman.errors import ConfigError, RunError
from dragoman.text.alterations import transformations
from dragoman.text.normalisation import META_SPACE
from dragoman.text.tokenizer import TokenizerPair
from dragoman.text.transformations import REPLACED
from dragoman.text.vocabulary import EOS_ID, SPECIAL_TOKENS, UNK_ID

Spec = dict[str, Any]

TARGET = "tgt:"
"""What stands before the tokens of the target, where those of both languages are in one file. No text can
become such a token: a colon and letters are never cut into one piece."""

WHITE_SPACE = r"[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
"""What `str.split` takes for white space."""

FINAL_SIGMA = r"(?<=\p{L})Σ(?!\p{L})"
"""A capital sigma that ends a word, which `str.lower` writes as ς."""


def portable(
    path: Path, *, end: bool = True, before: Mapping[str, int] = MappingProxyType({}), slots: str = ""
) -> Spec:
    """Return the tokenizer in Dragoman's file `path`; with `end` it writes the end token behind a text.

    `before` are reserved tokens, and their ids, that it writes before every text; `slots` stay where other
    control characters go. ConfigError: that format has no way to say it.
    """
    spec = _portable(path)
    for new in "", " ":  # no tokenizer can meet a lone surrogate
        gone = (rf"\x{{{c:x}}}" for c, other in REPLACED.items() if other == new and chr(c) not in slots)
        pattern = Regex(f"[{''.join(gone)}]")
        spec["normalizer"]["normalizers"].insert(0, _as_json(normalizers.Replace(pattern, new)))
        spec["decoder"]["decoders"].append(_as_json(decoders.Replace(pattern, new)))
    added = {**before, **({SPECIAL_TOKENS[EOS_ID]: EOS_ID} if end else {})}
    if not added:
        return spec | {"post_processor": None}
    behind = [SPECIAL_TOKENS[EOS_ID]] * end
    template = processors.TemplateProcessing(
        single=" ".join([*before, "$A", *behind]),
        pair=" ".join([*before, "$A", "$B", *behind]),
        special_tokens=list(added.items()),
    )
    return spec | {"post_processor": _as_json(template)}


def _portable(path: Path) -> Spec:
    ours = json.loads(path.read_text(encoding="utf-8"))
    if "model" in ours:
        lowercase = ours["normalizer"] is not None
        kept = {name: ours[name] for name in ("model", "pre_tokenizer", "decoder")}
        kept["model"]["dropout"] = None
        if kept["model"]["type"] != "BPE":
            del kept["model"]["dropout"]
        return _frame(lowercase) | kept
    kind = ours.get("kind")
    if kind == "words" and ours["splitter"] == "regex" and not ours["format_output"]:
        splitter = pre_tokenizers.Split(Regex(ours["pattern"]), behavior="removed", invert=True)
        strip = decoders.Strip(content=" ", left=1, right=0)
        decoder = decoders.Sequence([decoders.Replace(Regex("^"), " "), decoders.Fuse(), strip])
        return _whole(ours, normalizers.Sequence([]), splitter, decoder)
    if kind == "characters":
        splitter = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
        decoder = decoders.Sequence([decoders.Replace(META_SPACE, " "), decoders.Fuse()])
        return _whole(ours, normalizers.Replace(" ", META_SPACE), splitter, decoder)
    reasons = {
        "words": "words that spaCy splits, or whose output is formatted (tokenizer.format_output),",
        "sentencepiece": "the sentencepiece model that came with an imported model",
        "pieces": "text that is already cut into pieces",
    }
    raise ConfigError(
        f"{path}: {reasons.get(str(kind), f'a tokenizer of {kind}')} cannot be written as tokenizer.json"
    )


def portable_pair(src: Path, tgt: Path, *, end: bool, before: Mapping[str, int], slots: str) -> Spec:
    """One file for two vocabularies: the source's ids as they are, the target's behind them.

    A text is read with the source's; tokens of the target have TARGET before them, and are written without.
    """
    both, other = portable(src, end=end, before=before, slots=slots), portable(tgt, slots=slots)
    pieces = [TARGET + piece for piece in pieces_of(other)]
    model = both["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] |= {piece: i for i, piece in enumerate(pieces, start=len(model["vocab"]))}
    else:
        lowest = min(score for _, score in model["vocab"])
        model["vocab"] = [*model["vocab"], *([piece, lowest] for piece in pieces)]
    unmark = decoders.Replace(Regex(f"^{TARGET}"), "")
    both["decoder"] = {"type": "Sequence", "decoders": [_as_json(unmark), *other["decoder"]["decoders"]]}
    return both


def pieces_of(spec: Spec) -> list[str]:
    """Return the tokens in the order of their ids."""
    vocab = spec["model"]["vocab"]
    if isinstance(vocab, list):
        return [piece for piece, _ in vocab]
    return sorted(vocab, key=vocab.__getitem__)


def portable_transformations(config: TranslationConfig, tokenizers: TokenizerPair) -> Spec:
    """Return what `text.transformations` interprets, with the lists by target language.

    `marked`: a text says its language itself, in front, as ">>deu<<".
    """
    slots = config.modifiers.slots > 0 and tokenizers.has_slots
    both = {
        target: transformations(config.direction(target), recase=config.search.recase, slots=slots)
        for target in config.targets
    }
    marked = len(both) > 1 and "sentencepiece" in config.tokenizer.kinds
    lists = {target: one.pop("list") for target, one in both.items()}
    return both[config.targets[0]] | {"marked": marked, "lists": lists}


def to_json(spec: Spec) -> str:
    """Return the file. It is read once to see that it can be."""
    text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"))
    Tokenizer.from_str(text)
    return text


def check_portable(
    source: Path, target: Path, tokenizers: TokenizerPair, texts: Sequence[str], *, end: bool = True
) -> None:
    """Read `texts` by one file and write them by the other. RunError: otherwise than by the run."""
    reader, writer = (Tokenizer.from_file(str(path)) for path in (source, target))
    where = source.name
    check_texts(lambda text: reader.encode(text).ids, writer.decode, tokenizers, texts, end=end, where=where)


def check_texts(
    read: Callable[[str], list[int]],
    write: Callable[[list[int]], str],
    tokenizers: TokenizerPair,
    texts: Sequence[str],
    *,
    end: bool,
    where: str,
) -> None:
    """RunError: `read` gives a text other ids, with `end` the end token last, or `write` ids another text."""
    src, tgt = tokenizers.src, tokenizers.tgt
    for text, ids in zip(texts, src.encode_batch(texts), strict=True):
        if list(read(text)) != [*ids, *[EOS_ID] * end]:
            raise RunError(f"{where}: {text!r} becomes other tokens than in the run; nothing was written")
    for ids in tgt.encode_batch(texts):
        legible = [i for i in ids if i != UNK_ID]
        if write(legible) != (expected := tgt.decode(legible)):
            raise RunError(f"{where}: {expected!r} is written otherwise than in the run; nothing was written")


def _whole(ours: Spec, last: Any, splitter: Any, decoder: Any) -> Spec:
    """Return a tokenizer of words or characters; `last` comes behind what normalises all texts."""
    spec = _frame(bool(ours["lowercase"]))
    steps = _as_json(last)
    spec["normalizer"]["normalizers"] += steps.get("normalizers", [steps])
    vocab = {piece: i for i, piece in enumerate(ours["vocabulary"])}
    model = models.WordLevel(vocab, unk_token=SPECIAL_TOKENS[UNK_ID])
    parts = {"model": model, "pre_tokenizer": splitter, "decoder": decoder}
    return spec | {name: _as_json(part) for name, part in parts.items()}


def _frame(lowercase: bool) -> Spec:
    """Return the common part of the specs: normalisation."""
    spaces = [normalizers.Replace(Regex(WHITE_SPACE), " "), normalizers.Strip()]
    steps: list[Any] = [normalizers.Replace(META_SPACE, "_"), normalizers.NFC(), *spaces]
    if lowercase:
        steps += [normalizers.Replace(Regex(FINAL_SIGMA), "ς"), normalizers.Lowercase(), normalizers.NFC()]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": _as_json(normalizers.Sequence(steps)),
    }


def _as_json(part: Any) -> Spec:
    """Return a part of a tokenizer as it stands in the file."""
    return dict(json.loads(part.__getstate__()))
