"""Labelled texts as ids in memory-mapped files; like `store`, for classification.

cache/<key>/
    text.ids, text.offsets      the ids of all texts, one after the other, and where each begins
    labels                      int32: the class number of each text; or, where a text has several labels,
                                uint8: for each text and each class, whether it has it
    meta.json                   counts and types; written last
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.config import parse_json
from dragoman.data.labelled import LabelledCorpus, labels_of
from dragoman.data.store import (
    CHUNK,
    META,
    SideWriter,
    check_side,
    chunks,
    flush,
    open_side,
    prepare_store,
    write_json,
)
from dragoman.errors import DataError, counted
from dragoman.metrics.labelling import Labels, labelling_of
from dragoman.text.tokenizer import Tokenizer

FORMAT = 1
"""Goes into every key: raise it where the files or the text's treatment change."""


class SkippedText(NamedTuple):
    """What is not read: texts without a word, and the ends of texts with more windows than are read."""

    n_empty: int
    n_texts: int
    """Texts that lost their end ..."""
    n_tokens: int
    """... and the tokens it had."""


class LabelledStore:
    """The texts of a corpus that are not empty, as ids, and their labels, in the corpus' order."""

    def __init__(self, folder: Path) -> None:
        """Open the finished store in `folder`; `prepare` makes one. ValueError: it is not complete."""
        self.folder = folder
        try:
            meta = parse_json((folder / META).read_bytes())
            n_texts = int(meta["n_texts"])
            self.text = open_side(folder, "text", meta["text"], n_sentences=n_texts)
            check_side(folder, "text", meta["text"])
            n_labels = meta.get("n_labels")
            data = (folder / "labels").read_bytes()
            self.labels: Labels = np.frombuffer(data, dtype=np.int32 if n_labels is None else np.uint8)
            """(N,) class numbers, or (N, C) 0 and 1."""
            if n_labels is not None:
                self.labels = self.labels.reshape(-1, n_labels)
            if len(self.labels) != n_texts:
                raise ValueError(f"labels should be those of {n_texts} texts")
            if meta.get("labels_crc") not in (None, zlib.crc32(self.labels.tobytes())):
                raise ValueError("labels have changed since they were written")
            self.cut = SkippedText(**meta["cut"])
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{folder}: not a complete token store ({error})") from error

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> npt.NDArray[np.int32]:
        """Tokens of each text."""
        return self.text.lengths

    def gathered(self, texts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the ids of `texts`, one after the other, and the tokens that each has."""
        ids = [self.text[i] for i in texts.tolist()]
        return np.concatenate(ids).astype(np.int64), self.lengths[texts].astype(np.int64)

    def notes(self) -> list[str]:
        """Return a line for each kind of skipped examples of the corpus."""
        n_empty, n_texts, n_tokens = self.cut
        lines = [f"skipped {counted(n_empty, 'text')}: they are empty"] if n_empty else []
        if n_texts:
            lines.append(f"cut {n_tokens:,} tokens off {n_texts:,} of {len(self):,} texts (data.max_windows)")
        return lines

    @classmethod
    def prepare(
        cls,
        corpus: LabelledCorpus,
        tokenizer: Tokenizer,
        *,
        labels: Sequence[str],
        max_tokens: int,
        cache: Path,
        dropout: tuple[int, ...] | None = None,
    ) -> LabelledStore:
        """Return the store of `corpus` in the folder `cache`; make it if it is missing or incomplete.

        `labels` are the names of the classes in their order. Texts end after `max_tokens` tokens (0: never);
        what that cuts is counted. `dropout`: see `TokenStore.prepare`. DataError: the corpus
        cannot be read, has a label that is not among `labels`, or no text; or the disk is full.
        """
        names = json.dumps(list(labels))
        key = (
            f"labelled {FORMAT} {corpus.fingerprint()} {tokenizer.fingerprint} {names} {max_tokens} {dropout}"
        )
        build = partial(
            _build, corpus=corpus, tokenizer=tokenizer, labels=labels, max_tokens=max_tokens, dropout=dropout
        )
        return prepare_store(cache, key, name=corpus.name, opened=cls, build=build)


def class_numbers(labels: Sequence[str]) -> dict[str, int]:
    """Return the number of each class by its name."""
    return {label: i for i, label in enumerate(labels)}


def numbers_of(cell: str, numbers: Mapping[str, int], *, separator: str, where: str) -> list[int]:
    """Return the class numbers of the labels in a cell. DataError: the classifier does not know one."""
    labels = labels_of(cell, separator)
    for label in labels:
        if label not in numbers:
            names = ", ".join(map(repr, [*numbers][:10])) + (", ..." if len(numbers) > 10 else "")
            raise DataError(
                f"{where}: the label {label!r} is not in the training data ({names}); "
                "correct it, or train with examples of it"
            )
    return [numbers[label] for label in labels]


def _build(
    folder: Path,
    *,
    corpus: LabelledCorpus,
    tokenizer: Tokenizer,
    labels: Sequence[str],
    max_tokens: int,
    dropout: tuple[int, ...] | None,
) -> None:
    """Write all the files of a store into the empty `folder`."""
    separator, numbers = corpus.separator, class_numbers(labels)
    labelling = labelling_of(separator)
    generator = None if dropout is None else np.random.default_rng(dropout)
    n_empty = n_cut = n_tokens_cut = labels_crc = 0
    with (
        SideWriter(folder, "text", vocab_size=tokenizer.vocab_size) as text,
        (folder / "labels").open("wb") as file,
    ):
        for examples in chunks(corpus.examples(), CHUNK):
            ids = tokenizer.encode_batch([example.text for example in examples], dropout=generator)
            kept = [(i, example.label) for i, example in zip(ids, examples, strict=True) if i]
            shortened = [i[: max_tokens or None] for i, _ in kept]
            text.append(shortened)
            class_ids = [
                numbers_of(cell, numbers, separator=separator, where=corpus.name) for _, cell in kept
            ]
            data = labelling.encode(class_ids, len(labels)).tobytes()
            file.write(data)
            labels_crc = zlib.crc32(data, labels_crc)
            lost = [len(i) - len(s) for (i, _), s in zip(kept, shortened, strict=True)]
            n_empty += len(examples) - len(kept)
            n_cut += sum(n > 0 for n in lost)
            n_tokens_cut += sum(lost)
        flush(file)
    if not text.n_sentences:
        raise DataError(f"{corpus.name}: no text to learn from; check the file and data.text_column")
    meta: dict[str, Any] = {
        "corpus": corpus.name,
        "n_texts": text.n_sentences,
        "cut": SkippedText(n_empty, n_cut, n_tokens_cut)._asdict(),
        "text": text.meta,
        "labels_crc": labels_crc,
        **({"n_labels": len(labels)} if separator else {}),
    }
    write_json(folder / META, meta)
