"""Open the corpora of a configuration, and hash their files to detect changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from dragoman.config import (
    ClassificationConfig,
    ClassificationDataConfig,
    Config,
    Corpora,
    CorpusConfig,
    TranslationConfig,
    TranslationDataConfig,
    each_corpus,
)
from dragoman.data.corpora import open_corpus
from dragoman.data.labelled import open_labelled
from dragoman.data.readers.files import find_file
from dragoman.data.records import (
    Corpus,
    JoinedCorpora,
    Unseen,
    has_text,
    hash_plain,
    part_of,
    split_held_out,
    turned_round,
)
from dragoman.errors import DataError


def open_text(data: TranslationDataConfig | ClassificationDataConfig, files: Corpora) -> Corpus:
    """Return the corpus in `files`, of the languages or in the columns that `data` says.

    DataError: as they have.
    """
    if isinstance(data, ClassificationDataConfig):
        text, label, separator = data.text_column, data.label_column, data.label_separator
        return open_labelled(files, text_column=text, label_column=label, separator=separator)
    src_lang, tgt_lang = data.src_lang, data.tgt_lang
    return _as_one(
        [
            open_listed(listed, one, (src_lang, tgt_lang))
            if (listed := data.corpus_with(one))
            else open_corpus(one, src_lang=src_lang, tgt_lang=tgt_lang, columns=data.columns)
            for one in each_corpus(files) or [()]
        ]
    )


def open_labelled_split(config: ClassificationConfig) -> tuple[Corpus, Corpus]:
    """Return the texts to train on, and those to validate on: held out of the former where none are named.

    DataError: a file is missing.
    """
    return _open_split(config.data, seed=config.data.seed_of_split(config.seed))


def _open_split(
    data: TranslationDataConfig | ClassificationDataConfig, *, seed: int
) -> tuple[Corpus, Corpus]:
    """Return the text to train on, and the text to validate on: named, or held out of the former."""
    corpus = open_text(data, data.train)
    if data.valid:
        return corpus, open_text(data, data.valid)
    return split_held_out(corpus, n_held_out=data.n_held_out, seed=seed)


def open_listed(corpus: CorpusConfig, files: Corpora, direction: tuple[str, str]) -> Corpus:
    """Open some files of a listed corpus, the source of `direction` first. DataError: as `open_corpus`."""
    text = open_corpus(files, src_lang=corpus.langs[0], tgt_lang=corpus.langs[1], columns=corpus.columns)
    return text if direction == corpus.langs else turned_round(text)


class TrainingPart(NamedTuple):
    """A corpus in one direction, as it is trained on: that of the model, or turned round the other one."""

    corpus: Corpus
    listed: CorpusConfig | None
    """None: the only corpus of a configuration of one."""
    direction: tuple[str, str]


class ValidationPart(NamedTuple):
    """A text to validate on."""

    name: str
    """The direction, as "en-de"; or its corpus, if `data.choose_by` has each scored by itself."""
    corpus: Corpus
    direction: tuple[str, str]


def open_training(config: TranslationConfig) -> tuple[list[TrainingPart], list[ValidationPart]]:
    """Return the text to train on, and the text to validate on: one for each direction that is trained.

    With `data.choose_by` it is one for each corpus, and the corpus of this name comes first.

    DataError: a file is missing, or there is no text to validate on.
    """
    parts: list[TrainingPart] = []
    validated: list[ValidationPart] = []
    for direction in config.data.trained_directions:
        trained, held_out = _open_direction(config, direction)
        parts += trained
        validated += held_out
    return _without_overlap(config, parts, validated), validated


def open_validation(config: TranslationConfig) -> list[ValidationPart]:
    """Return the texts to validate the first direction on. DataError: as `open_training`."""
    return _open_direction(config, config.languages)[1]


def open_direction(config: TranslationConfig) -> tuple[Corpus, Corpus]:
    """Return the pairs of the first direction to train on, and those to validate on, held out or not.

    DataError: as `open_training`.
    """
    train, valid = _open_direction(config, config.languages)
    train = _without_overlap(config, train, valid)
    as_it_stands = [part.corpus for part in train if part.direction == config.languages]
    return _as_one(as_it_stands), _as_one([part.corpus for part in valid])


def _without_overlap(
    config: TranslationConfig, parts: list[TrainingPart], validated: Sequence[ValidationPart]
) -> list[TrainingPart]:
    """Return `parts`, with `data.drop_overlap` without what is in validation text and test sets."""
    if not config.data.drop_overlap:
        return parts
    held_out = [(one.direction, one.corpus) for one in validated]
    for direction in config.directions:
        data = config.data.towards(direction)
        held_out += [(direction, open_text(data, files)) for files in data.test.values()]
    held_hashes: dict[str, set[int]] = {language: set() for pair in config.directions for language in pair}
    for direction, corpus in held_out:
        for pair in filter(has_text, corpus.pairs()):
            for language, text in zip(direction, pair, strict=True):
                held_hashes[language].add(hash_plain(text))
    frozen = {language: frozenset(hashes) for language, hashes in held_hashes.items()}
    return [
        part._replace(corpus=Unseen(part.corpus, (frozen[part.direction[0]], frozen[part.direction[1]])))
        for part in parts
    ]


def _as_one(corpora: list[Corpus]) -> Corpus:
    return corpora[0] if len(corpora) == 1 else JoinedCorpora(corpora)


def _open_direction(
    config: TranslationConfig, direction: tuple[str, str]
) -> tuple[list[TrainingPart], list[ValidationPart]]:
    """Return what is trained on in a direction, and what it is validated on."""
    data, seed = config.data.towards(direction), config.data.seed_of_split(config.seed)
    if data.corpora:
        return _open_several(data, direction, seed=seed)
    corpus, held_out = _open_split(data, seed=seed)
    return (
        [TrainingPart(part_of(corpus, data.part, seed=seed), None, direction)],
        [ValidationPart("-".join(direction), held_out, direction)],
    )


def _open_several(
    data: TranslationDataConfig, direction: tuple[str, str], *, seed: int
) -> tuple[list[TrainingPart], list[ValidationPart]]:
    """Return the same for listed corpora, validated together, or with `data.choose_by` each by itself."""
    listed = [one for one in data.corpora if direction in one.directions() or one.turned(direction)]
    read = {one.name: direction[::-1] if one.turned(direction) else direction for one in listed}
    opened = {one.name: open_listed(one, one.files, read[one.name]) for one in listed}
    held: dict[str, Corpus] = {}
    for one, n_held_out in _holding_out(data, listed):
        # Split as its files stand, so that both directions hold out the same pairs.
        _, held_out = split_held_out(
            open_listed(one, one.files, one.langs),
            n_held_out=n_held_out,
            seed=seed if one.split_seed < 0 else one.split_seed,
        )
        held[one.name] = held_out if direction == one.langs else turned_round(held_out)
        for name, text in opened.items():  # another corpus may have the same sources, and the other way round
            as_listed = read[name] == one.langs
            rest = held_out.taken_from(text if as_listed else turned_round(text))
            opened[name] = rest if as_listed else turned_round(rest)
    parts = [TrainingPart(opened[one.name], one, read[one.name]) for one in listed]
    if data.choose_by:
        texts = held | {
            one.name: open_listed(one, one.valid, direction)
            for one in data.corpora
            if one.valid and one.knows(direction)
        }
        chosen_first = sorted(texts, key=lambda name: name != data.choose_by)
        return parts, [ValidationPart(name, texts[name], direction) for name in chosen_first]
    name = "-".join(direction)
    if not (held or data.valid):
        raise DataError(
            f"{name}: has no text to validate on, for synthetic pairs are not held out; "
            "name some as valid of a corpus in data.corpora"
        )
    valid = open_text(data, data.valid) if data.valid else _as_one([*held.values()])
    return parts, [ValidationPart(name, valid, direction)]


def _holding_out(
    data: TranslationDataConfig, listed: Sequence[CorpusConfig]
) -> Iterator[tuple[CorpusConfig, int]]:
    """Yield the corpora to hold pairs out of, and how many: natural ones, if nothing else is validated on."""
    natural = [one for one in listed if one.origin == "natural"]
    if data.choose_by:
        yield from ((one, one.n_held_out or data.n_held_out) for one in natural if not one.valid)
    elif not data.valid:
        yield from ((one, max(1, data.n_held_out // len(natural))) for one in natural)


class ListedText(NamedTuple):
    """The text in some files of a listed corpus."""

    langs: tuple[str, str]
    corpus: Corpus

    def towards(self, direction: tuple[str, str]) -> Corpus | None:
        """Return it with the source of `direction` first; None: it is in other languages."""
        if direction == self.langs:
            return self.corpus
        return turned_round(self.corpus) if direction == self.langs[::-1] else None


def listed_texts(config: Config) -> dict[str, ListedText]:
    """Open every text of listed corpora, by name: "train.news"; none where none is listed.

    Files that are listed a second time, to be turned round, are one text. DataError: a file is missing.
    """
    data = config.data
    if not (isinstance(data, TranslationDataConfig) and data.is_mixed):
        return {}
    as_they_stand = [corpus.files for corpus in data.corpora if corpus.origin != "reversed"]
    return {
        f"{part}.{corpus.name}": ListedText(corpus.langs, open_listed(corpus, files, corpus.langs))
        for corpus in data.corpora
        for part, files in corpus.named().items()
        if corpus.origin != "reversed" or files not in as_they_stand
    }


def open_named(config: Config) -> Mapping[str, Corpus]:
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


PLACES = "places"
"""The part of a run's corpora.json that has where each file was, by its name in config.toml."""


def places_of(config: Config) -> dict[str, str]:
    """Return the absolute path of each file of the corpora, by its name in the configuration."""
    names = sorted({name for _, files in config.data.files() for name in files})
    places = {}
    for name in names:
        with suppress(DataError):  # the embedded text, or a data set of the hub
            places[name] = str(find_file(name, copied=False).absolute())
    return places


def located(config: Config, places: Mapping[str, Any], say: Callable[[str], Any]) -> Config:
    """Return `config` with each file that is not here named by its place in `places`, which `say` is told."""
    gone: dict[str, str] = {}
    for name, place in places.items():
        try:
            find_file(name, copied=False)
        except DataError:
            gone[name] = str(place)
    if not gone:
        return config
    say(f"read from where they were in training: {', '.join(sorted(gone.values()))}")
    return with_files(config, lambda name: gone.get(name, name))


def with_files(config: Config, renamed: Callable[[str], str]) -> Config:
    """Return `config` with the files of its corpora under other names."""

    def moved(section: Any) -> Any:
        if isinstance(section, str):
            return renamed(section)
        if isinstance(section, tuple):
            return tuple(map(moved, section))
        if isinstance(section, dict):
            return {name: moved(files) for name, files in section.items()}
        parts = {"train", "files", "valid", "test", "corpora"} & type(section).model_fields.keys()
        return section.model_copy(update={part: moved(getattr(section, part)) for part in parts})

    return config.model_copy(update={"data": moved(config.data)})


def changed_files(before: Mapping[str, Any], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the sources in `now` that had another hash `before`; a file that was only moved had the same."""
    changed = []
    for name, hashes in now.items():
        earlier = before.get(name)
        old = list(earlier.values()) if isinstance(earlier, Mapping) else list(hashes.values())
        changed += [file for i, (file, new) in enumerate(hashes.items()) if old[i : i + 1] != [new]]
    return changed
