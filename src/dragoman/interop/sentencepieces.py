"""Write Dragoman's tokenizers as sentencepiece models, which cut text as they do but for rare cases.

Sentencepiece merges any two neighbours that make a piece, and Dragoman only the pairs that it has learnt; the
caller counts how many texts are cut alike.
"""

from __future__ import annotations

import base64
import json
import struct
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError, optional
from dragoman.text.subwords import BYTE_TOKENS
from dragoman.text.tokenizer import Tokenizer
from dragoman.text.vocabulary import SPECIAL_TOKENS, UNK_ID

_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_UNIGRAM, _BPE = 1, 2


def sentencepiece_model(path: Path, tokenizer: Tokenizer) -> bytes:
    """Return the model for the tokenizer in Dragoman's file `path`, loaded as `tokenizer`.

    That of an imported run is the one that came with it.

    Raises:
        ConfigError: it is neither of subwords nor of sentencepiece, or that in lower case.
    """
    spec = json.loads(path.read_bytes())
    if spec.get("kind") == "sentencepiece" and not spec["lowercase"]:  # no model lowercases
        return base64.b64decode(spec["sentencepiece"])
    if "model" not in spec:
        kind = f"{spec['kind']} in lower case" if spec["lowercase"] else spec["kind"]
        raise ConfigError(f"a tokenizer of {kind} cannot be written as a sentencepiece model")
    scores = _scores(spec["model"])
    pieces = []
    for i, piece in enumerate(tokenizer.pieces()):
        score = scores.get(piece)  # None: no text becomes the piece
        kind = _BYTE if piece in BYTE_TOKENS else _NORMAL if score is not None else _CONTROL
        message = _field(1, piece.encode()) + _field(2, score or 0.0)
        pieces.append(_field(1, message + _field(3, _UNKNOWN if i == UNK_ID else kind)))
    model_type = _BPE if spec["model"]["type"] == "BPE" else _UNIGRAM
    trainer = _field(3, model_type) + _field(35, 1) + _field(40, UNK_ID)  # 35: byte_fallback, 40: unk_id
    # Messages of protobuf one after another are merged into one.
    return b"".join(pieces) + _field(2, trainer) + _normalizer(tokenizer.normalise)


def _scores(model: dict[str, Any]) -> dict[str, float]:
    """Return the scores of pieces that text can become: log-probabilities, or the order of the merges."""
    if model["type"] != "BPE":
        return {piece: score for piece, score in model["vocab"] if piece not in _FIXED}
    merged = [start + end for start, end in model["merges"]]
    scores = {piece: -float(rank) for rank, piece in reversed([*enumerate(merged)])}
    return scores | {piece: -float(len(merged)) for piece in model["vocab"] if len(piece) == 1}


_FIXED = {*SPECIAL_TOKENS, *BYTE_TOKENS}


def _normalizer(normalise: Callable[[str], str]) -> bytes:
    """Return a model without pieces that normalises as `normalise`, character by character."""
    sentencepiece = optional("sentencepiece", extra="argos", purpose="writing a sentencepiece model")
    sentencepiece.SetMinLogLevel(2)  # else it tells of its rules on stderr
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.tsv"
        lines = (
            f"{_code_points(old)}\t{_code_points(new)}\n" for old, new in sorted(_rules(normalise).items())
        )
        path.write_text("".join(lines), encoding="ascii")
        flags = dict.fromkeys(("add_dummy_prefix", "escape_whitespaces", "remove_extra_whitespaces"), True)
        made = sentencepiece.SentencePieceNormalizer(rule_tsv=str(path), **flags)
        model = bytes(made.serialized_model_proto())
    for start in range(2, 8):  # behind the number of the field and its length
        content = model[start:]
        if _field(3, content) == model:  # its last field is the name of the file of rules
            return _field(3, content.removesuffix(_field(6, str(path).encode())))
    return model


def _rules(normalise: Callable[[str], str]) -> dict[str, str]:
    """Return what sequences of characters become, where that is something else."""
    rules = {}
    for start in range(0, 0x110000, 256):
        points = range(max(1, start), start + 256)
        block = "1".join(map(chr, points))
        if block == normalise(block) == unicodedata.normalize("NFD", block):
            continue
        for sequence in (sequence for point in points for sequence in _spellings(chr(point))):
            new = normalise(f"1{sequence}1")[1:-1]
            if new != sequence:
                rules[sequence] = new
    return rules


def _spellings(character: str) -> Iterator[str]:
    """Yield the character, and what else is the same in Unicode's composed form."""
    if unicodedata.category(character) == "Cs":
        return
    yield character
    base, *marks = list(unicodedata.normalize("NFD", character))
    for order in permutations(marks):
        sequence = "".join([base, *order])
        if unicodedata.normalize("NFC", sequence) != character:
            continue
        for n in range(1, len(sequence)):  # composed up to there
            yield unicodedata.normalize("NFC", sequence[:n]) + sequence[n:]


def _code_points(text: str) -> str:
    return " ".join(f"{ord(c):X}" for c in text)


def _field(number: int, value: bytes | int | float) -> bytes:
    """Return a field in protobuf's wire format."""
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    low = b""
    while value > 0x7F:
        low += bytes([value & 0x7F | 0x80])
        value >>= 7
    return low + bytes([value])
