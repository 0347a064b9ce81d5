"""Open the corpora of a configuration, and hash their files to detect changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, overload

from dragoman.config import (
    ClassificationDataConfig,
    Config,
    Corpora,
    CorpusConfig,
    CorpusFiles,
    TranslationConfig,
    TranslationDataConfig,
    each_corpus,
)
from dragoman.data.corpora import Corpus, Reversed, Several, open_corpus, part_of, split_held_out
from dragoman.data.labelled import LabelledCorpus, open_labelled
from dragoman.errors import DataError


@overload
def open_text(data: TranslationDataConfig, files: Corpora) -> Corpus: ...
@overload
def open_text(data: ClassificationDataConfig, files: Corpora) -> LabelledCorpus: ...
def open_text(
    data: TranslationDataConfig | ClassificationDataConfig, files: Corpora
) -> Corpus | LabelledCorpus:
    """Return the corpus in `files`, of the languages or in the columns that `data` says.

    DataError: as they have.
    """
    if isinstance(data, ClassificationDataConfig):
        return open_labelled(files, text_column=data.text_column, label_column=data.label_column)
    several = each_corpus(files)
    listed = [(data.corpus_with(one), one) for one in several]
    if not any(corpus for corpus, _ in listed):
        return open_corpus(files, src_lang=data.src_lang, tgt_lang=data.tgt_lang, columns=data.columns)
    parts = [
        open_listed(corpus, one, (data.src_lang, data.tgt_lang))
        if corpus
        else open_corpus(one, src_lang=data.src_lang, tgt_lang=data.tgt_lang)
        for corpus, one in listed
    ]
    return parts[0] if len(parts) == 1 else Several(parts)


def open_listed(corpus: CorpusConfig, files: CorpusFiles, direction: tuple[str, str]) -> Corpus:
    """Open some files of a listed corpus, the source of `direction` first. DataError: as `open_corpus`."""
    src, tgt = corpus.langs
    text = open_corpus(files, src_lang=src, tgt_lang=tgt, columns=corpus.columns)
    return text if direction == corpus.langs else Reversed(text)


class TrainingPart(NamedTuple):
    """A corpus in one direction, as it is trained on."""

    corpus: Corpus
    listed: CorpusConfig | None
    """None: the only corpus of a configuration of one."""
    direction: tuple[str, str]


def open_training(config: TranslationConfig) -> tuple[list[TrainingPart], dict[tuple[str, str], Corpus]]:
    """Return the text to train on, and for each direction that is trained the text to validate on.

    DataError: a file is missing, or there is no text to validate on.
    """
    parts: list[TrainingPart] = []
    validated = {}
    for direction in config.data.trained_directions:
        own, validated[direction] = _open_direction(config, direction)
        parts += own
    return parts, validated


def open_direction(config: TranslationConfig) -> tuple[Corpus, Corpus]:
    """Return the pairs of the first direction to train on, and those to validate on, held out or not.

    DataError: as `open_training`.
    """
    parts, valid = _open_direction(config, config.languages)
    return parts[0].corpus if len(parts) == 1 else Several([part.corpus for part in parts]), valid


def _open_direction(
    config: TranslationConfig, direction: tuple[str, str]
) -> tuple[list[TrainingPart], Corpus]:
    """Return what is trained on in a direction, and what it is validated on."""
    data, seed = config.data.towards(direction), config.data.seed_of_split(config.seed)
    if not data.corpora:
        corpus = open_text(data, data.train)
        if data.valid:
            valid = open_text(data, data.valid)
        else:
            corpus, valid = split_held_out(corpus, n_held_out=data.n_held_out, seed=seed)
        return [TrainingPart(part_of(corpus, data.part, seed=seed), None, direction)], valid
    listed = [one for one in data.corpora if one.trains(direction)]
    opened = {one.name: open_listed(one, one.files, direction) for one in listed}
    held: list[Corpus] = []
    if not data.valid:
        natural = [one for one in listed if one.origin == "natural"]
        for one in natural:
            # Split as its files stand, so that both directions hold out the same pairs.
            both = split_held_out(
                open_listed(one, one.files, one.langs),
                n_held_out=max(1, data.n_held_out // len(natural)),
                seed=seed,
            )
            opened[one.name], held_out = (text if direction == one.langs else Reversed(text) for text in both)
            held.append(held_out)
        if not held:
            raise DataError(
                f"{'-'.join(direction)}: has no text to validate on, for synthetic pairs are not held out; "
                "name some as valid of a corpus in data.corpora"
            )
    parts = [TrainingPart(opened[one.name], one, direction) for one in listed]
    return parts, open_text(data, data.valid) if data.valid else held[0] if len(held) == 1 else Several(held)


class ListedText(NamedTuple):
    """The text in some files of a listed corpus."""

    langs: tuple[str, str]
    corpus: Corpus

    def towards(self, direction: tuple[str, str]) -> Corpus | None:
        """Return it with the source of `direction` first; None: it is in other languages."""
        if direction == self.langs:
            return self.corpus
        return Reversed(self.corpus) if direction == self.langs[::-1] else None


def listed_texts(config: Config) -> dict[str, ListedText]:
    """Open every text of listed corpora, by name: "train.news"; none where none is listed.

    DataError: a file is missing.
    """
    data = config.data
    if not (isinstance(data, TranslationDataConfig) and data.is_mixed):
        return {}
    return {
        f"{part}.{corpus.name}": ListedText(corpus.langs, open_listed(corpus, files, corpus.langs))
        for corpus in data.corpora
        for part, files in corpus.named().items()
    }


def open_named(config: Config) -> Mapping[str, Corpus | LabelledCorpus]:
    """Open every corpus of a configuration, by name: train, valid, test.NAME; of a listed one, train.NAME.

    DataError: a file is missing.
    """
    if listed := listed_texts(config):
        return {name: text.corpus for name, text in listed.items()}
    return {name: open_text(config.data, files) for name, files in config.data.named().items()}


def hashes_of(config: Config, parts: Collection[str] = ("train", "valid")) -> dict[str, dict[str, str]]:
    """Return the hash of each file, or other source, that the corpora of these parts are read from."""
    named = {name: corpus for name, corpus in open_named(config).items() if name.split(".")[0] in parts}
    return {name: corpus.hashes() for name, corpus in named.items()}


def changed_files(before: Mapping[str, Any], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the sources in `now` that had another hash `before`; a file that was only moved had the same."""
    changed = []
    for name, hashes in now.items():
        known = before.get(name)
        old = list(known.values()) if isinstance(known, Mapping) else list(hashes.values())
        changed += [file for i, (file, new) in enumerate(hashes.items()) if old[i : i + 1] != [new]]
    return changed
