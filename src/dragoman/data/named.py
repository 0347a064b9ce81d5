"""Open the corpora of a configuration, and hash their files to detect changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, overload

from dragoman.config import ClassificationDataConfig, Config, Corpora, TranslationDataConfig
from dragoman.data.corpora import Corpus, open_corpus
from dragoman.data.labelled import LabelledCorpus, open_labelled


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
    return open_corpus(files, src_lang=data.src_lang, tgt_lang=data.tgt_lang, columns=data.columns)


def hashes_of(config: Config, names: Collection[str] = ("train", "valid")) -> dict[str, dict[str, str]]:
    """Return the hash of each file, or other source, that the corpora of these names are read from."""
    named = {name: files for name, files in config.data.named().items() if name in names}
    return {name: open_text(config.data, files).hashes() for name, files in named.items()}


def changed_files(before: Mapping[str, Any], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the sources in `now` that had another hash `before`; a file that was only moved had the same."""
    changed = []
    for name, hashes in now.items():
        known = before.get(name)
        old = list(known.values()) if isinstance(known, Mapping) else list(hashes.values())
        changed += [file for i, (file, new) in enumerate(hashes.items()) if old[i : i + 1] != [new]]
    return changed
