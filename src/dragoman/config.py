"""All settings, on one page.

A recipe is a TOML file with the sections below. Settings are checked strictly: unknown keys, wrong
types and contradictions are all reported at once, misspelt names with a suggestion.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import reprlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar, get_args, get_origin

import tomli_w
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from typing_extensions import Self

from dragoman.errors import ConfigError
from dragoman.removed import instead_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_ROWS = 100_000
"""Maximum hypotheses of all sentences of a batch."""

MAX_COUNT = 10**9
"""Maximum of counts such as steps and pairs; larger values are mistakes and would overflow."""

MAX_SEED = 2**63 - 1
"""The largest integer of TOML, and of random generators."""

MAX_VOCAB = 10_000_000
"""Tokens of a vocabulary."""

MAX_PROBLEMS = 20
"""Maximum mistakes in a recipe that a message lists."""

MAX_BYTES, MAX_POINTS = 1 << 17, 5000
"""Maximum bytes and dots of a recipe: the time that the parser takes for a key is quadratic in its dots."""

CorpusFiles: TypeAlias = tuple[str, ...]
"""The files of one corpus."""
TokenizerKind: TypeAlias = Literal["bpe", "unigram", "words", "characters", "sentencepiece", "pieces"]
FOREIGN_KINDS = ("sentencepiece", "pieces")
"""Tokenizers of imported models; they are loaded, never trained."""
RecipeName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Column: TypeAlias = int | str
"""A column: its number, counted from 0, or its name if the file names its fields."""
Language: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9]{1,16}([-_][A-Za-z0-9]{1,16}){0,3}$")]
"""A language code of a corpus among several, such as "de" or "pt_BR"; a reserved token is made of it."""
DirectionName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+-[A-Za-z0-9_]+$")]
"""A direction in a recipe, such as "en-de"; a variant of a language is written as pt_BR in it."""
Direction: TypeAlias = tuple[str, str]
"""A source and a target language."""
Beta: TypeAlias = Annotated[float, Field(ge=0.0, lt=1.0)]
Share: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)]

SettingsT = TypeVar("SettingsT", bound=BaseModel)


def each_corpus(files: Sequence[str] | Sequence[Sequence[str]]) -> tuple[CorpusFiles, ...]:
    """Return the files of each corpus, from a list of files or a list of such lists."""
    names = tuple(item for item in files if isinstance(item, str))
    return (names,) if names else tuple(tuple(item) for item in files)


def _as_corpora(value: Any) -> tuple[Any, ...]:
    """Return a list of files, or of such lists, as tuples. ValueError: it is neither."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{_REPR.repr(value)} is not a list of files")
    corpora = tuple(tuple(item) if isinstance(item, list) else item for item in value)
    is_one = all(isinstance(item, str) for item in corpora)
    are_several = all(isinstance(item, tuple) and all(isinstance(f, str) for f in item) for item in corpora)
    if not (is_one or are_several):
        raise ValueError(f"{_REPR.repr(list(value))} is neither a list of files nor a list of such lists")
    return corpora[0] if are_several and len(corpora) == 1 else corpora


Corpora: TypeAlias = Annotated[CorpusFiles | tuple[CorpusFiles, ...], BeforeValidator(_as_corpora)]
"""The files of one corpus, or of several that are read one after the other as one."""


def file_names(files: Sequence[str] | Sequence[Sequence[str]]) -> CorpusFiles:
    """Return the names of all files in such a list, in order."""
    return tuple(name for corpus in each_corpus(files) for name in corpus)


def _check_test_names(tests: dict[str, Corpora]) -> dict[str, Corpora]:
    """ValueError: a test set has a name that cannot be a file's, for its translations are written to one."""
    for name in tests:
        if not 1 <= len(name) <= 100 or not name.isprintable() or name[0] == "." or set(name) & set("/\\:"):
            raise ValueError(f"{name[:100]!r} is no name for a test set, for it cannot be that of a file")
    return tests


Tests: TypeAlias = Annotated[dict[str, Corpora], AfterValidator(_check_test_names)]
"""The files of each test set, by its name."""


def _check_each_once(what: str, names: Sequence[str]) -> None:
    """ValueError: a name occurs twice."""
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise ValueError(f"{what}: {twice[0]} occurs twice")


class Settings(BaseModel):
    """A group of settings: frozen and strict; unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _lists_are_tuples(cls, value: Any) -> Any:
        """Return TOML's list as the tuple that a setting is."""
        return tuple(value) if isinstance(value, list) else value

    @field_validator("*")
    @classmethod
    def _is_utf8(cls, value: Any) -> Any:
        """Check that all strings are UTF-8, as in config.toml; names of files may be any bytes."""
        try:
            json.dumps(value, ensure_ascii=False, default=repr).encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{_REPR.repr(value)} is not valid UTF-8; rename the file") from error
        return value


class DataConfig(Settings):
    """The text; settings common to both tasks.

    Files may end in .gz, .xz or .zst. Relative names are looked up in the working directory, then in
    $DRAGOMAN_DATA, then among the data sets that `dragoman data fetch` has brought.
    """

    train: Corpora
    """Training text; empty for an imported model, which cannot be trained from scratch."""
    valid: Corpora = ()
    """Validation text, which selects checkpoints; empty = hold out `n_held_out` examples of train."""
    test: Tests = Field(default_factory=dict)
    """Test sets for the final scores, by name."""
    n_held_out: int = Field(default=1000, ge=1, le=MAX_COUNT)
    """Examples held out of train if there is no valid (at most a tenth of the corpus)."""
    split_seed: int = Field(default=-1, ge=-1, le=MAX_SEED)
    """Seed of the held-out examples, so that runs of different seeds are comparable; -1 = `seed`."""

    def seed_of_split(self, seed: int) -> int:
        """Return the seed of the held-out examples in a run of this `seed`."""
        return self.split_seed if self.split_seed >= 0 else seed

    def named(self) -> dict[str, Corpora]:
        """Return the files of train, of valid where there is one, and of each test, by name: "test.news"."""
        named = {"train": self.train, "valid": self.valid}
        tests = {f"test.{name}": files for name, files in self.test.items()}
        return {name: files for name, files in named.items() if files} | tests

    def files(self) -> Iterator[tuple[str, CorpusFiles]]:
        """Yield the name and the files of every corpus; a name may occur several times in a row."""
        for name, files in self.named().items():
            yield from ((name, corpus) for corpus in each_corpus(files) or ((),))


class CorpusConfig(Settings):
    """One of several corpora, [[data.corpora]], with a mixing weight and the languages of its sides."""

    name: RecipeName
    """Name of the corpus, for stages and logs."""
    files: Corpora = ()
    """Two aligned files, or one file with both sides, or a list of such lists, read as one; none for text
    that is only validated or tested on."""
    langs: tuple[Language, Language]
    """Languages of the first and of the second side."""
    both_ways: bool = False
    """Train both directions, not only from the first language to the second."""
    weight: float = Field(default=1.0, gt=0.0, le=1e6)
    """Factor of the corpus' size in the mix."""
    origin: Literal["natural", "synthetic", "reversed"] = "natural"
    """"synthetic" = its sources were translated by a machine: they are marked by a reserved token.
    "reversed" = its pairs are turned round, so that a model of one direction learns from both; both languages
    then share a vocabulary."""
    columns: tuple[Column, Column] = (0, 1)
    """Columns of the two sides in a file of pairs: numbers from 0, or names of fields."""
    valid: Corpora = ()
    """Validation text of the same languages, used in both directions."""
    test: Tests = Field(default_factory=dict)
    """Test sets of the same languages, by name, used in both directions."""
    n_held_out: int = Field(default=0, ge=0, le=MAX_COUNT)
    """With data.choose_by: pairs to hold out of this corpus for validation; 0 = data.n_held_out."""
    split_seed: int = Field(default=-1, ge=-1, le=MAX_SEED)
    """With data.choose_by: seed of the pairs held out of this corpus; -1 = data.split_seed."""

    @model_validator(mode="after")
    def _is_parallel_text(self) -> Self:
        if self.langs[0] == self.langs[1]:
            raise ValueError(f"{self.name}: both sides are {self.langs[0]!r}; langs are two languages")
        if not (self.files or self.valid or self.test):
            raise ValueError(f"{self.name}: names no file")
        if self.valid and (self.n_held_out or self.split_seed >= 0):
            raise ValueError(f"{self.name}: has valid, so that none of its pairs is held out")
        if self.origin == "reversed" and self.both_ways:
            raise ValueError(f'{self.name}: origin = "reversed" does not go with both_ways')
        return self

    def knows(self, direction: Direction) -> bool:
        """Return whether its sides are in these two languages, in any order."""
        return direction in (self.langs, self.langs[::-1])

    def turned(self, direction: Direction) -> bool:
        """Return whether a model of this direction also learns from it, turned round."""
        return bool(self.files) and self.origin == "reversed" and self.knows(direction)

    def directions(self) -> tuple[Direction, ...]:
        """Return the directions for which it is training text as it stands."""
        if not self.files or self.origin == "reversed":
            return ()
        return (self.langs, self.langs[::-1]) if self.both_ways else (self.langs,)

    def named(self) -> dict[str, Corpora]:
        """Return its files by what they are for: train, valid, test.NAME."""
        named = {"train": self.files, "valid": self.valid}
        return {part: files for part, files in named.items() if files} | {
            f"test.{name}": files for name, files in self.test.items()
        }


UNTIL = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) epochs?(?: of (\S+))?")


class StageConfig(Settings):
    """A stage of training, [[data.stages]], with a mix of its own."""

    mix: dict[str, Annotated[float, Field(gt=0.0, le=1e6)]]
    """Shares of the corpora by name, relative to one another; corpora that are not named rest."""
    until: str = ""
    """End of the stage: "3 epochs of NAME", or "2 epochs" of the mix; "" = the end of training."""

    @model_validator(mode="after")
    def _names_its_end(self) -> Self:
        if not self.mix:
            raise ValueError("mix names no corpus")
        match = UNTIL.fullmatch(self.until)
        if self.until and (match is None or not float(match[1]) or match[2] not in (None, *self.mix)):
            raise ValueError(f'until = "{self.until}": say "3 epochs of NAME" of this mix, or "2 epochs"')
        return self

    @property
    def end(self) -> tuple[float, str]:
        """How many epochs of the corpus of this name, or of the mix where it is ""."""
        match = UNTIL.fullmatch(self.until)
        return (float(match[1]), match[2] or "") if match else (math.inf, "")


class TranslationDataConfig(DataConfig):
    """Parallel text.

    A corpus is two aligned files `["train.en", "train.de"]`, one file with both sides (tab-separated, CSV,
    JSON lines, TMX, Parquet), or a split of the embedded corpus `["phrasebook:train"]`. Several corpora,
    as `[["a.en", "a.de"], ["b.tmx"]]`, are read one after the other as one. Corpora that are mixed, or in
    several languages, are listed as [[data.corpora]] in place of train, valid and test.
    """

    src_lang: str
    """Language code of the source, such as "en"; of several directions, that of the first."""
    tgt_lang: str
    """Language code of the target; selects BLEU's tokenisation ("zh" is scored by characters)."""
    columns: tuple[Column, Column] = (0, 1)
    """Columns of source and target in a file of pairs: numbers from 0, or names of fields."""
    max_length: int = Field(default=128, ge=2, le=100_000)
    """Longest training sentence in tokens, end token included; longer pairs are skipped and counted."""
    directions: tuple[DirectionName, ...] = ()
    """Directions of the model, as ["en-de", "de-en"]; empty = those that the corpora train."""
    drop_overlap: bool = False
    """Leave out training pairs of which a side is in the validation text or a test set, but for case,
    punctuation and spaces."""
    part: tuple[Share, Share] = (0.0, 1.0)
    """Part of the training pairs to use, chosen by a hash of the source: [0.0, 0.25] is a random quarter and
    lies within [0.0, 0.5]. Validation text stays the same."""
    temperature: float = Field(default=1.0, ge=1.0, le=1000.0)
    """Share of a direction in the mix ~ its pairs^(1 / temperature); more than 1 favours small ones."""
    corpora: tuple[CorpusConfig, ...] = ()
    """Several corpora, mixed by size, weight and temperature (docs/corpora.md)."""
    stages: tuple[StageConfig, ...] = ()
    """Stages of training with mixes of their own; empty = one mix."""
    choose_by: str = ""
    """Corpus whose validation score chooses the checkpoint. Every corpus is then scored by itself, on its
    valid or on pairs held out of it. "" = one score over the validation text of all."""

    @model_validator(mode="before")
    @classmethod
    def _listed_corpora_say_the_rest(cls, settings: Any) -> Any:
        """Fill in what a list of corpora makes needless: train, and the languages of the first direction."""
        if not isinstance(settings, dict):
            return settings
        if settings.get("corpora"):
            settings = {"train": (), **settings}
        if {"src_lang", "tgt_lang"} & settings.keys():
            return settings
        try:
            if settings.get("directions"):
                src, _, tgt = settings["directions"][0].partition("-")
            else:
                src, tgt = next(corpus["langs"] for corpus in settings["corpora"] if corpus.get("files"))
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration):
            return settings  # the checks of each setting say what is wrong
        return {**settings, "src_lang": src, "tgt_lang": tgt}

    @model_validator(mode="after")
    def _corpora_are_one_or_two_files(self) -> Self:
        for name, files in self.files():
            if not 1 <= len(files) <= 2:
                raise ValueError(f"{name}: a corpus is two aligned files or one file with both sides")
        return self

    @model_validator(mode="after")
    def _corpora_and_directions_fit(self) -> Self:
        _check_each_once("directions", self.directions)
        if self.directions and self.all_directions[0] != (self.src_lang, self.tgt_lang):
            raise ValueError(f"src_lang and tgt_lang are not the first direction, {self.directions[0]}")
        if self.part[0] >= self.part[1]:
            raise ValueError(
                f"part = {list(self.part)} holds nothing; give two shares, the smaller one first"
            )
        if self.corpora and self.part != (0.0, 1.0):
            raise ValueError("part is for one corpus; give those in data.corpora a weight")
        if not self.corpora:
            if self.stages or self.temperature != 1.0 or self.choose_by:
                raise ValueError(
                    "stages, temperature and choose_by are for several corpora: list them in data.corpora"
                )
            return self
        if self.train or self.valid or self.test or self.columns != (0, 1):
            raise ValueError("data.corpora has files, valid, test and columns of its own; move them there")
        _check_each_once("corpora", [corpus.name for corpus in self.corpora])
        trained = self.trained_directions
        if not trained:
            raise ValueError("no corpus trains any of the directions")
        if self.all_directions[0] not in trained:
            raise ValueError(f"{'-'.join(self.all_directions[0])} comes first, and no corpus trains it")
        for pair in self.all_directions:
            for side, languages in zip(pair, map(set, zip(*trained, strict=True)), strict=True):
                if side not in languages:
                    raise ValueError(f"no corpus trains {side!r} as in {'-'.join(pair)}")
            names = [name for corpus in self.corpora if corpus.knows(pair) for name in corpus.test]
            _check_each_once(f"tests of {'-'.join(pair)}", names)
        self._check_choice()
        turned = [c.name for c in self.corpora if c.turned(self.all_directions[0])]
        if turned and len(self.all_directions) > 1:
            raise ValueError(
                f'{turned[0]}: origin = "reversed" is for a model of one direction; '
                "for one of both ways say both_ways = true"
            )
        used = {c.name for c in self.corpora if set(c.directions()) & set(trained)} | {*turned}
        idle = [c.name for c in self.corpora if c.name not in used]
        for i, stage in enumerate(self.stages):
            if unknown := [name for name in stage.mix if name not in self.names]:
                raise ValueError(f"stages: {unknown[0]} is no corpus with files; there are {self.names}")
            if left_out := [name for name in stage.mix if name in idle]:
                raise ValueError(
                    f"stages: {left_out[0]} trains none of the directions; leave it out of the mix"
                )
            if not stage.until and i + 1 < len(self.stages):
                raise ValueError('stages: all but the last need an end, as until = "2 epochs"')
        return self

    def _check_choice(self) -> None:
        """ValueError: choose_by names no corpus, or settings for it do not fit."""
        if not self.choose_by:
            if names := [
                corpus.name for corpus in self.corpora if corpus.n_held_out or corpus.split_seed >= 0
            ]:
                raise ValueError(f"{names[0]}: n_held_out and split_seed of a corpus need data.choose_by")
            return
        if len(self.trained_directions) > 1:
            raise ValueError("choose_by is for one direction")
        choices = [c.name for c in self.corpora if c.valid or (c.files and c.origin == "natural")]
        if self.choose_by not in choices:
            raise ValueError(f"choose_by = {self.choose_by!r} has no validation text; there are {choices}")

    @property
    def names(self) -> list[str]:
        """The names of the corpora that train."""
        return [corpus.name for corpus in self.corpora if corpus.files]

    @property
    def all_directions(self) -> tuple[Direction, ...]:
        """The directions of the model, also those that no corpus trains."""
        if self.directions:
            return tuple((src, tgt) for src, _, tgt in (name.partition("-") for name in self.directions))
        directions = dict.fromkeys(direction for corpus in self.corpora for direction in corpus.directions())
        return tuple(directions) or ((self.src_lang, self.tgt_lang),)

    @property
    def trained_directions(self) -> tuple[Direction, ...]:
        """The directions that have training text."""
        if not self.corpora:
            return self.all_directions
        trained = {direction for corpus in self.corpora for direction in corpus.directions()}
        return tuple(direction for direction in self.all_directions if direction in trained)

    @property
    def is_mixed(self) -> bool:
        """Whether it names several corpora and is not the part of one direction."""
        return bool(self.corpora) and not (self.train or self.valid or self.test)

    def named(self) -> dict[str, Corpora]:
        if not self.is_mixed:
            return super().named()
        parts = [(corpus.name, *part) for corpus in self.corpora for part in corpus.named().items()]
        return {f"{part}.{name}": files for name, part, files in parts}

    def towards(self, direction: Direction) -> TranslationDataConfig:
        """Return the text of one direction alone, in the form of one corpus."""
        if self.all_directions == (direction,) and not self.corpora:
            return self
        src, tgt = direction
        chosen: dict[str, Any] = {"src_lang": src, "tgt_lang": tgt, "directions": (f"{src}-{tgt}",)}
        if self.corpora:
            corpora = [corpus for corpus in self.corpora if corpus.knows(direction)]
            trained = [corpus for corpus in corpora if direction in corpus.directions()]
            chosen |= {
                "train": tuple(files for corpus in trained for files in each_corpus(corpus.files)),
                "valid": tuple(files for corpus in corpora for files in each_corpus(corpus.valid)),
                "test": {name: files for corpus in corpora for name, files in corpus.test.items()},
            }
        return self.model_copy(update=chosen)

    def corpus_with(self, files: CorpusFiles) -> CorpusConfig | None:
        """Return the listed corpus of this direction that has these files; None: they are not listed."""
        direction = (self.src_lang, self.tgt_lang)
        corpora = (corpus for corpus in self.corpora if corpus.knows(direction))
        return next((c for c in corpora if any(files in each_corpus(v) for v in c.named().values())), None)


class ParallelText(Settings):
    """The section [data] of a translation recipe, read before the other sections are known."""

    data: TranslationDataConfig


class ClassificationDataConfig(DataConfig):
    """Labelled text: one file (tab-separated, CSV, JSON lines, Parquet) or "phrasebook:reviews-train"."""

    text_column: Column = 1
    """Column of the text: number from 0, or name of the field."""
    label_column: Column = 0
    """Column of the label. Labels are names, even if they look like numbers."""
    label_separator: str = Field(default="", max_length=3)
    """Separator of the labels of a text, as "|" in "politics|sport"; a text then has any number of labels.
    "" = one label a text."""
    max_length: int = Field(default=256, ge=2, le=100_000)
    """Maximum tokens in a window. A longer text is split into several windows, which all count for its
    label."""
    max_windows: int = Field(default=0, ge=0, le=MAX_COUNT)
    """Maximum windows of a text; the rest is truncated and counted. 0 = no limit."""

    @field_validator("label_separator")
    @classmethod
    def _separator_is_printable(cls, separator: str) -> str:
        if not all(character.isprintable() for character in separator):
            raise ValueError('give one to three characters that can be seen, as "|"; a tab separates columns')
        return separator

    @model_validator(mode="after")
    def _corpora_are_one_file(self) -> Self:
        names = [name for name, _ in self.files()]
        for name, files in self.files():
            if len(files) != 1 or names.count(name) > 1:
                raise ValueError(f"{name}: labelled text is one file, with a column for the label")
        return self


class TokenizerConfig(Settings):
    """Tokenization."""

    kind: TokenizerKind = "bpe"
    """Byte-pair encoding (Sennrich et al. 2016), unigram language model (Kudo 2018), words or characters. An
    imported model has its own SentencePiece model, or expects text that is already split into pieces."""
    tgt_kind: TokenizerKind | Literal["same"] = "same"
    """Kind for the target, with shared = false; "same" = as `kind`."""
    vocab_size: int = Field(default=8000, ge=10, le=MAX_VOCAB)
    """Tokens per vocabulary, special ones included; "bpe" and "unigram" need 300, for their byte tokens."""
    shared: bool = True
    """One vocabulary for both languages (needed to tie source and target embeddings)."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Probability of skipping a merge during training (BPE-dropout, Provilkov et al. 2020)."""
    lowercase: bool = False
    """Lower-case all text."""
    min_frequency: int = Field(default=1, ge=1, le=MAX_COUNT)
    """For words and characters: minimum frequency in train; rarer ones are unknown."""
    splitter: Literal["regex", "spacy"] = "regex"
    """For words: split by a regular expression, or by spaCy's rules for the language (extra "spacy")."""
    format_output: bool = False
    """For words: capitalise the first letter of the output, and join punctuation to words."""

    @model_validator(mode="after")
    def _settings_fit_the_kind(self) -> Self:
        kinds = self.kinds
        if self.dropout and "bpe" not in kinds:
            raise ValueError(f'dropout is for kind = "bpe"; set dropout = 0.0 for {self.kind}')
        if kinds & {"bpe", "unigram"} and self.vocab_size < 300:
            raise ValueError(
                f"vocab_size = {self.vocab_size} leaves no room beside 256 byte tokens; 300 does"
            )
        if self.tgt_kind not in ("same", self.kind) and self.shared:
            raise ValueError(f'tgt_kind = "{self.tgt_kind}" needs a vocabulary of its own: shared = false')
        if "words" not in kinds and (self.format_output or self.splitter != "regex"):
            raise ValueError('splitter and format_output are for kind = "words"')
        if not kinds & {"words", "characters"} and self.min_frequency > 1:
            raise ValueError('min_frequency is for kind = "words" or "characters"')
        return self

    @property
    def kinds(self) -> set[str]:
        """Kinds of the source and of the target."""
        return {self.kind, self.kind if self.tgt_kind == "same" else self.tgt_kind}


class EncoderConfig(Settings):
    """Architecture of the encoder, common to both tasks (Vaswani et al. 2017, section 3)."""

    d_model: int = Field(default=256, ge=2, le=100_000)
    """Width of every layer's input and output (paper: 512)."""
    n_heads: int = Field(default=4, ge=1, le=100_000)
    """Attention heads; each has d_model / n_heads dimensions (paper: 8)."""
    d_ff: int = Field(default=1024, ge=1, le=1_000_000)
    """Width inside the feed-forward block (paper: 2048)."""
    n_encoder_layers: int = Field(default=3, ge=1, le=1000)
    """Encoder layers (paper: 6)."""
    dropout: float = Field(default=0.1, ge=0.0, le=0.99)
    """Dropout on embeddings and on the output of every sub-layer (section 5.4)."""
    attention_dropout: float = Field(default=0.0, ge=0.0, le=0.99)
    """Dropout on attention weights (tensor2tensor; not in the paper)."""
    activation_dropout: float = Field(default=0.0, ge=0.0, le=0.99)
    """Dropout inside the feed-forward block, after the activation (tensor2tensor; not in the paper)."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each sub-layer, or after its residual as in the paper."""
    norm_eps: float = Field(default=1e-5, ge=1e-12, le=1.0)
    """Epsilon of layer norms, added to the variance; some toolkits use 1e-6."""
    activation: Literal["relu", "gelu", "swish"] = "relu"
    """Non-linearity of the feed-forward block; swish(x) = x sigmoid(x), as in Marian."""
    positions: Literal["sinusoidal", "learned", "stored"] = "sinusoidal"
    """Positional encoding: sinusoidal as in the paper; a learned table; or the fixed table of an imported
    model."""
    scale_embeddings: bool = True
    """Multiply the embeddings of tokens by sqrt(d_model) (section 3.4)."""
    max_positions: int = Field(default=512, ge=2, le=100_000)
    """Maximum length of a sentence or window in tokens. Longer sentences are translated in parts."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model = {self.d_model} is not a multiple of n_heads = {self.n_heads}")
        if self.d_model % 2:
            raise ValueError(f"d_model = {self.d_model} is odd; sinusoidal positions need an even width")
        return self


class ModelConfig(EncoderConfig):
    """The encoder-decoder of the paper. The defaults are a small model for two CPU cores."""

    n_decoder_layers: int = Field(default=3, ge=1, le=1000)
    """Decoder layers (paper: 6)."""
    tie_embeddings: Literal["all", "output", "none"] = "all"
    """Tied embeddings: source, target and output ("all", section 3.4), target and output, or none."""
    output_bias: bool = False
    """Bias of each target token before the softmax, as in Marian and OpenNMT."""
    source_end: bool = True
    """Whether the encoder reads the end token of the source; false for models of OpenNMT."""


class ClassifierConfig(EncoderConfig):
    """An encoder, a pooling over the tokens of a text, and a linear head."""

    pooling: Literal["mean", "max", "mean+max"] = "mean+max"
    """Pooling of the encoded tokens of a text; "mean+max" concatenates both."""
    word_dropout: float = Field(default=0.0, ge=0.0, le=0.99)
    """Probability of hiding a token from the encoder during training."""
    ngrams: int = Field(default=0, ge=0, le=5)
    """Maximum length of the n-grams that vote beside the encoder; 0 = no n-grams (model/ngrams.py)."""
    ngram_bits: int = Field(default=20, ge=4, le=26)
    """N-grams are hashed into 2^bits buckets, each with a weight for every label."""
    ngram_rate: float = Field(default=10.0, gt=0.0, le=1e6)
    """Of runs of version 0.1, a factor of their votes; today's votes are solved for, and do not read it."""


class TrainingConfig(Settings):
    """Training (sections 5.1, 5.3 and 5.4); settings common to both tasks."""

    max_steps: int = Field(default=6000, ge=1, le=MAX_COUNT)
    """Maximum updates of the weights."""
    max_epochs: int = Field(default=0, ge=0, le=MAX_COUNT)
    """Stop after this many passes over the corpus; 0 = no limit."""
    max_minutes: float = Field(default=0.0, ge=0.0, le=1e7)
    """Stop after this many minutes of training, resumed time included; 0 = no limit."""
    batch_tokens: int = Field(default=4096, ge=1, le=MAX_COUNT)
    """Maximum tokens in a batch, including padding: of the target, or of the texts to classify."""
    update_freq: int = Field(default=1, ge=1, le=100_000)
    """Gradient accumulation: number of batches per update."""
    learning_rate: float = Field(default=2e-3, gt=0.0, le=100.0)
    """Peak learning rate, reached at the end of warm-up (the paper's is 1/sqrt(d_model * warmup_steps))."""
    warmup_steps: int = Field(default=800, ge=1, le=MAX_COUNT)
    """Updates of warm-up, with a linear increase of the learning rate."""
    schedule: Literal["inverse_sqrt", "linear", "cosine", "constant", "wsd", "plateau"] = "inverse_sqrt"
    """Learning rate after warm-up: 1/sqrt(step) (the paper); linear or cosine decay to zero at max_steps;
    constant; constant until `decay_fraction` of the steps is left, then linear decay to zero ("wsd": warm-up,
    stable, decay); or constant until validation stalls ("plateau")."""
    decay_fraction: float = Field(default=0.2, ge=0.001, le=1.0)
    """For "wsd": fraction of max_steps, at the end, in which the rate decays."""
    plateau_factor: float = Field(default=0.5, ge=0.001, lt=1.0)
    """For "plateau": factor of the learning rate ..."""
    plateau_patience: int = Field(default=2, ge=1, le=MAX_COUNT)
    """... after this many validations without a better score."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """AdamW for all weights; or Muon for the matrices of the layers and AdamW for the others."""
    betas: tuple[Beta, Beta] = (0.9, 0.98)
    """AdamW's decay rates of first and second moments."""
    eps: float = Field(default=1e-9, ge=1e-16, le=1.0)
    """AdamW's epsilon."""
    weight_decay: float = Field(default=0.0, ge=0.0, le=100.0)
    """Decoupled weight decay of matrices; biases, norms and embeddings do not decay."""
    label_smoothing: float = Field(default=0.1, ge=0.0, lt=1.0)
    """Probability spread over the whole vocabulary, PyTorch's convention (section 5.4)."""
    clip_norm: float = Field(default=1.0, ge=0.0, le=1e9)
    """Gradient clipping: maximum norm of the gradient; 0 = no clipping."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Precision of activations; weights and optimizer stay fp32. "auto" = bf16 if the hardware supports it.
    "fp16" scales the loss against underflow, and lowers the scale if gradients overflow."""
    kernels: Literal["fast", "plain"] = "fast"
    """Implementation of dropout, loss and search: hand-written ("fast"), or PyTorch's operations. A search by
    hand-written code that computes another network than src/dragoman/model is not used."""
    ema_decay: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Decay per update of the exponential moving average of the weights, which is validated and saved; 0 =
    off."""
    log_every: int = Field(default=50, ge=1, le=MAX_COUNT)
    """Updates between log lines."""
    valid_every: int = Field(default=500, ge=0, le=MAX_COUNT)
    """Updates between validations and checkpoints; 0 = at the end of every epoch."""
    patience: int = Field(default=0, ge=0, le=MAX_COUNT)
    """Early stopping after this many validations without a better score; 0 = off."""
    keep_checkpoints: int = Field(default=5, ge=1, le=MAX_COUNT)
    """Number of validated checkpoints to average, kept until then: the last, or for average = "best" the
    best."""
    keep_best: int = Field(default=0, ge=0, le=MAX_COUNT)
    """Number of best validated checkpoints to keep, after the end as well; 0 = one."""
    max_disk_gb: float = Field(default=0.0, ge=0.0, le=1e9)
    """Maximum size of all checkpoints in 10^9 bytes; the worst-scoring ones are deleted. 0 = no limit."""
    average: Literal["last", "best", "none"] = "last"
    """Checkpoints to average at the end; the average is kept only if it scores better."""
    sharding: Literal["none", "full"] = "none"
    """With several processes: replicate all weights, or shard them (FSDP2), for large models."""
    timeout_minutes: float = Field(default=10.0, ge=0.001, le=10_000.0)
    """With several processes: minutes that an update waits for all of them, before they are restarted."""
    steps: Literal["auto", "free", "static"] = "auto"
    """"free": batches of any shape, synchronous updates. "static": batches of a dozen shapes, asynchronous
    updates with CUDA graphs (training/updates/captured.py). "auto" = static on a GPU, for translators."""
    device: str = "auto"
    """"auto", "cpu", "cuda" or "cuda:1"."""
    n_threads: int = Field(default=0, ge=0, le=4096)
    """CPU threads; 0 = PyTorch's default."""

    @model_validator(mode="after")
    def _optimizer_and_steps_fit(self) -> Self:
        if self.optimizer == "muon" and self.sharding == "full":
            raise ValueError('optimizer = "muon" does not go with sharding = "full"; set optimizer = "adamw"')
        if self.steps == "static" and (setting := self.wants_free_steps()):
            raise ValueError(f'steps = "static" does not go with {setting}; set steps = "free"')
        return self

    def wants_free_steps(self) -> str:
        """Return the first setting that static steps do not go with, as in a recipe; "" = there is none."""
        if self.precision == "fp16":
            return 'precision = "fp16"'
        return 'sharding = "full"' if self.sharding == "full" else ""


class TranslationTrainingConfig(TrainingConfig):
    """Training of a translator."""

    valid_beam_size: int = Field(default=1, ge=1, le=1000)
    """Beam size for the BLEU of validation; 1 = greedy."""
    metric: Literal["bleu", "loss"] = "bleu"
    """Metric that selects the best checkpoint."""
    start_from: str = ""
    """A run to fine-tune, with its tokenizers and weights, on other text or with other numbers of layers;
    "" = start from random weights."""
    extend_vocab: int = Field(default=0, ge=0, le=MAX_VOCAB)
    """Maximum tokens of the new text to add to each of its vocabularies."""
    consistency: float = Field(default=0.0, ge=0.0, le=1000.0)
    """Weight of the consistency loss between two passes with different dropout (R-Drop, Wu et al. 2021); 0 =
    off."""
    cutoff: float = Field(default=0.0, ge=0.0, le=0.9)
    """Probability of hiding a token, of either side, in the second pass (SimCut, Gao et al. 2022)."""

    @model_validator(mode="after")
    def _cuts_off_one_of_two_passes(self) -> Self:
        if self.cutoff and not self.consistency:
            raise ValueError("cutoff hides tokens from the second of two passes; set consistency = 3.0")
        return self

    def wants_free_steps(self) -> str:
        return "consistency" if self.consistency else super().wants_free_steps()


class ClassificationTrainingConfig(TrainingConfig):
    """Training of a classifier."""

    def wants_free_steps(self) -> str:
        return 'task = "classification"'

    steps: Literal["auto", "free"] = "auto"
    """Batches of any shape, synchronous updates."""
    sharding: Literal["none"] = "none"
    """With several processes: replicate all weights."""
    label_smoothing: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Probability spread over all labels."""
    metric: Literal["accuracy", "micro_f1", "macro_f1", "loss"] = "accuracy"
    """Metric that selects the best checkpoint. With data.label_separator, a text counts for "accuracy" if all
    its labels are right, and there is "micro_f1"."""
    class_weights: Literal["none", "balanced"] = "none"
    """"balanced" = weight examples as if all labels were equally frequent; for one label a text."""


BEAM_ONLY = {"coverage_penalty": 0.0, "diversity_groups": 1}
"""Settings that sampling does not go with, and what turns each off."""


class SearchConfig(Settings):
    """Search for translations (docs/decoding.md)."""

    method: Literal["beam", "sampling"] = "beam"
    """Beam search, or random sampling."""
    beam_size: int = Field(default=5, ge=1, le=MAX_ROWS)
    """Beam size: number of hypotheses kept; 1 = greedy."""
    length_penalty: float = Field(default=1.0, ge=0.0, le=10.0)
    """Length penalty: alpha of Wu et al. 2016, equation 14. 0 favours short translations; 1 nearly averages
    per token."""
    coverage_penalty: float = Field(default=0.0, ge=0.0, le=1000.0)
    """Coverage penalty: beta of the same equation, for source tokens without attention; 0 = off."""
    n_best: int = Field(default=1, ge=1, le=MAX_ROWS)
    """Number of alternatives, best first; at most beam_size. For "sampling": number of samples, without
    limit."""
    diversity_groups: int = Field(default=1, ge=1, le=MAX_ROWS)
    """Groups of diverse beam search, which avoid each other's tokens (Vijayakumar et al. 2018)."""
    diversity_penalty: float = Field(default=0.5, ge=0.0, le=1000.0)
    """Diversity penalty of a token in nats, for each hypothesis of an earlier group with the same token."""
    no_repeat_ngram: int = Field(default=0, ge=0, le=100_000)
    """Block repeated n-grams of this size in a translation; 0 = off."""
    temperature: float = Field(default=1.0, ge=0.001, le=1000.0)
    """For "sampling": temperature, the divisor of log-probabilities; below 1 = less random."""
    top_k: int = Field(default=0, ge=0, le=MAX_VOCAB)
    """For "sampling": sample from the k most probable tokens; 0 = all."""
    top_p: float = Field(default=1.0, ge=1e-6, le=1.0)
    """For "sampling": sample from the most probable tokens with this total probability (nucleus)."""
    seed: int = Field(default=1, ge=0, le=MAX_SEED)
    """For "sampling": random seed; samples depend on it and on the number of the sentence."""
    max_length_factor: float = Field(default=2.0, gt=0.0, le=1000.0)
    """Maximum length of a translation in tokens: this factor × the length of the source ..."""
    max_length_extra: int = Field(default=20, ge=1, le=100_000)
    """... plus this."""
    batch_sentences: int = Field(default=100, ge=1, le=MAX_ROWS)
    """Maximum sentences in a batch."""
    shortlist: bool = True
    """On a processor, compute only the tokens that the run's shortlist has for a sentence, if it has one."""
    recase: bool = True
    """Read a text in capitals, or with a capital at the beginning of every word, in the case that the
    vocabulary has, and write its translation in the text's own."""

    @model_validator(mode="after")
    def _settings_fit_the_method(self) -> SearchConfig:
        n_rows = self.batch_sentences * (self.n_best if self.method == "sampling" else self.beam_size)
        if n_rows > MAX_ROWS:
            raise ValueError(
                f"{n_rows:,} hypotheses of {self.batch_sentences:,} sentences at once are too many; set a "
                f"smaller batch_sentences, so that there are {MAX_ROWS:,} at most"
            )
        if self.method == "sampling":
            for name, off in BEAM_ONLY.items():
                if getattr(self, name) != off:
                    raise ValueError(f'{name} is for method = "beam"; set {name} = {off}')
            return self
        if self.n_best > self.beam_size:
            raise ValueError(
                f"n_best = {self.n_best} needs a beam at least as large; beam_size = {self.beam_size}"
            )
        if self.beam_size % self.diversity_groups:
            raise ValueError(
                f"beam_size = {self.beam_size} cannot be split into diversity_groups = "
                f"{self.diversity_groups} of equal width; take a multiple of it"
            )
        return self

    def changed(self, settings: Mapping[str, Any], *, where: str) -> SearchConfig:
        """Return these settings with others in their place; a value of None leaves what is there.

        Where a beam is given and n_best or diversity_groups is not, the latter become 1 if they do not fit.
        ConfigError: a setting is unknown, of the wrong type or out of range, or some contradict each other.
        """
        overrides = {name: value for name, value in settings.items() if value is not None}
        if not overrides:
            return self
        merged = {**self.model_dump(), **overrides}
        if isinstance(merged["beam_size"], int) and merged["beam_size"] > 0:
            if "n_best" not in overrides and merged["method"] == "beam" and self.n_best > merged["beam_size"]:
                merged["n_best"] = 1
            if "diversity_groups" not in overrides and merged["beam_size"] % self.diversity_groups:
                merged["diversity_groups"] = 1
        if merged["method"] == "sampling" and "method" in overrides:
            merged |= {name: overrides.get(name, off) for name, off in BEAM_ONLY.items()}
        return parse_section(SearchConfig, merged, where=where)


class ModifiersConfig(Settings):
    """Alterations of training pairs, drawn again in every epoch, as shares of all pairs.

    They prepare a translator for text unlike its corpus; validation and test text is never altered.
    """

    upper: Share = 0.0
    """Both sides in capitals."""
    title: Share = 0.0
    """Both sides with a capital at the beginning of every word."""
    typos: Share = 0.0
    """Typing mistakes in a seventh of the source's words."""
    no_final: Share = 0.0
    """No final punctuation on both sides."""
    merge: Share = 0.0
    """Joined with the pairs that follow, one to three of them, as one line; shorter than data.max_length."""
    numbers: Share = 0.0
    """Other digits in the numbers that both sides share."""
    copies: Share = 0.0
    """Beside the text on both sides, something to carry over: number, address, placeholder, tag or emoji."""
    slots: Share = 0.0
    """Reserved tokens in the place of the numbers, times, addresses, placeholders, tags and emoji that both
    sides share; above 0, translations carry them over in the same way."""
    noise: Share = 0.0
    """In place of both sides, the same characters without a meaning."""

    @model_validator(mode="after")
    def _cases_exclude_each_other(self) -> Self:
        if self.upper + self.title > 1:
            raise ValueError(f"upper + title = {self.upper + self.title:g} are more than all pairs")
        return self

    def __bool__(self) -> bool:
        """Whether any pair is altered."""
        return any(self.model_dump().values())


class TaskNames(NamedTuple):
    """Names of the parts of a task, for messages and pages."""

    verb: str
    """Of the command and of the predictor's method."""
    predictor: str
    """The class that `dragoman` exports."""
    result: str
    """The attribute that holds what a predictor answers for a text."""
    unit: str
    """What losses are averaged over."""
    score: str
    """The score of validations in history.jsonl."""
    score_title: str
    score_unit: str
    sample: tuple[str, str, str]
    """A validation sample: what went in, what should come out, what came out."""
    on_hub: str
    """The Hugging Face hub's name of the task."""


class TranslationConfig(Settings):
    """A whole recipe for a translator."""

    names: ClassVar[TaskNames] = TaskNames(
        verb="translate", predictor="Translator", result="text", unit="token",
        score="bleu", score_title="BLEU", score_unit="",
        sample=("source", "reference", "hypothesis"), on_hub="translation",
    )  # fmt: skip

    task: Literal["translation"] = "translation"
    """Task: "translation" or "classification"."""
    name: RecipeName
    """Name of the recipe; the default run folder is runs/<name>."""
    seed: int = Field(default=1, ge=0, le=MAX_SEED)
    """Seed of all random numbers."""
    data: TranslationDataConfig
    modifiers: ModifiersConfig = ModifiersConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    training: TranslationTrainingConfig = TranslationTrainingConfig()
    search: SearchConfig = SearchConfig()

    @model_validator(mode="after")
    def _sections_fit(self) -> Self:
        _check_text(self.data, self.tokenizer, self.model)
        if self.model.tie_embeddings == "all" and not self.tokenizer.shared:
            raise ValueError(
                'model.tie_embeddings = "all" needs tokenizer.shared = true; '
                'for two vocabularies set model.tie_embeddings = "output"'
            )
        if self.tokenizer.splitter == "spacy" and self.tokenizer.shared and len(set(self.languages)) > 1:
            raise ValueError('tokenizer.splitter = "spacy" splits by language: set tokenizer.shared = false')
        if self.tokenizer.splitter == "spacy" and len(self.directions) > 1:
            raise ValueError('tokenizer.splitter = "spacy" is for one direction; set splitter = "regex"')
        if not self.tokenizer.shared and any(one.origin == "reversed" for one in self.data.corpora):
            raise ValueError(
                'a corpus of origin = "reversed" needs one vocabulary for both languages, tokenizer.shared'
            )
        return self

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.data.src_lang, self.data.tgt_lang

    @property
    def draws_epochs(self) -> bool:
        """Whether every epoch has tokens of its own."""
        return self.tokenizer.dropout > 0 or bool(self.modifiers)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions that the model is meant for, the first of them `languages`."""
        return self.data.all_directions

    @property
    def targets(self) -> list[str]:
        """The languages that the model writes, that of the first direction first."""
        return list(dict.fromkeys(tgt for _, tgt in self.directions))

    @property
    def tests(self) -> dict[str, Corpora]:
        """The files of each test set, by the name that it has in scores.json."""
        configs = [self.towards(direction) for direction in self.directions]
        return {one.labelled(name): files for one in configs for name, files in one.data.test.items()}

    def labelled(self, name: str) -> str:
        """Return the name of a test set in scores.json: with its direction, where there may be several."""
        data = self.data
        return f"{name} ({'-'.join(self.languages)})" if data.corpora or data.directions else name

    def direction(self, to: str | None) -> Direction:
        """Return the direction that a user means by `to`: "en-de", or "de" for the first one into German.

        None is the only target that there is. Of a model of several directions, it may be one that was not
        trained, between languages that it knows. ConfigError: there is none, or there are several targets.
        """
        directions = self.directions
        named = {"-".join(direction): direction for direction in directions}
        if to in named:
            return named[to]
        targets = self.targets
        target = targets[0] if to is None and len(targets) == 1 else to
        if target in targets:
            return next(direction for direction in directions if direction[1] == target)
        if to is None:
            raise ConfigError(
                f'say --to LANGUAGE (in Python, to="{targets[0]}"): it translates {self.subject}'
            )
        src, _, tgt = to.rpartition("-")
        languages = {language for pair in directions for language in pair}
        if len(directions) > 1 and src in languages and tgt in targets and src != tgt:
            return src, tgt
        raise ConfigError(f"--to {to}: is no direction of the model, which translates {self.subject}")

    def towards(self, direction: Direction) -> TranslationConfig:
        """Return the configuration as a model of this one direction has it."""
        return self.model_copy(update={"data": self.data.towards(direction)})

    @property
    def subject(self) -> str:
        """What the model learns, such as "en → de" or "en ↔ de, en → pl"."""
        directions = self.directions
        shown = [d for i, d in enumerate(directions) if d[::-1] not in directions[:i]]
        return ", ".join(f"{src} {'↔' if (tgt, src) in directions else '→'} {tgt}" for src, tgt in shown)


class ClassificationConfig(Settings):
    """A whole recipe for a classifier."""

    names_of_one: ClassVar[TaskNames] = TaskNames(
        verb="classify", predictor="Classifier", result="label", unit="text",
        score="accuracy", score_title="accuracy", score_unit=" %",
        sample=("text", "label", "prediction"), on_hub="text-classification",
    )  # fmt: skip

    task: Literal["classification"]
    """Task; required here."""
    name: RecipeName
    """Name of the recipe; the default run folder is runs/<name>."""
    seed: int = Field(default=1, ge=0, le=MAX_SEED)
    """Seed of all random numbers."""
    data: ClassificationDataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ClassifierConfig = ClassifierConfig()
    training: ClassificationTrainingConfig = ClassificationTrainingConfig()

    @model_validator(mode="after")
    def _sections_fit(self) -> Self:
        _check_text(self.data, self.tokenizer, self.model)
        if self.tokenizer.tgt_kind != "same":
            raise ValueError("tokenizer.tgt_kind is for translation; a classifier has no target text")
        if self.data.label_separator and self.training.class_weights != "none":
            raise ValueError(
                'training.class_weights = "balanced" is for one label a text; leave it out, '
                "or data.label_separator"
            )
        if not self.data.label_separator and self.training.metric == "micro_f1":
            raise ValueError(
                'training.metric = "micro_f1" is for several labels a text (data.label_separator); '
                'for one label it is "accuracy"'
            )
        return self

    @property
    def names(self) -> TaskNames:
        """What it is called in commands and messages."""
        if not self.data.label_separator:
            return self.names_of_one
        return self.names_of_one._replace(score="micro_f1", score_title="micro-F1")

    @property
    def tests(self) -> dict[str, Corpora]:
        """The files of each test set, by the name that it has in scores.json."""
        return self.data.test

    @property
    def directions(self) -> tuple[Direction, ...]:
        """None: a classifier does not translate."""
        return ()

    @property
    def draws_epochs(self) -> bool:
        """Whether every epoch has tokens of its own."""
        return self.tokenizer.dropout > 0

    @property
    def subject(self) -> str:
        """What the model learns."""
        return "text → label"


Config: TypeAlias = TranslationConfig | ClassificationConfig
"""A whole recipe; `task` tells which of the two it is."""


TASKS: dict[str, type[TranslationConfig] | type[ClassificationConfig]] = {
    "translation": TranslationConfig,
    "classification": ClassificationConfig,
}


def _check_text(
    data: TranslationDataConfig | ClassificationDataConfig, tokenizer: TokenizerConfig, model: EncoderConfig
) -> None:
    """ValueError: there is no text to train on, or it is longer than the model reads."""
    has_text = any(name.startswith("train") for name in data.named())
    if not has_text and not tokenizer.kinds & set(FOREIGN_KINDS):
        raise ValueError('data.train names no file: train = ["train.en", "train.de"], or ["train.tsv"]')
    if model.max_positions < data.max_length:
        raise ValueError(
            f"data.max_length = {data.max_length} is more than model.max_positions = {model.max_positions}"
        )


def usual_max_length(model: EncoderConfig) -> int:
    """data.max_length as it is unless set, or less where a model of other origin has fewer positions."""
    usual: int = TranslationDataConfig.model_fields["max_length"].default
    return min(usual, model.max_positions)


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Return the configuration in the TOML file `path`, with `overrides` such as "model.d_model=128" on top.

    ConfigError: the file is missing, is not TOML, or holds mistakes (all of them are in the message).
    """
    return parse_config(read_settings(path), overrides=overrides, where=str(path))


def read_settings(path: str | Path) -> dict[str, Any]:
    """Read the TOML file `path`, unchecked. ConfigError: it is missing, or not TOML."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES or content.count(b".") > MAX_POINTS:
            raise ConfigError(
                f"{path}: has more than {MAX_BYTES:,} bytes or {MAX_POINTS:,} points; is it the right file?"
            )
        return tomllib.loads(content.decode())
    except OSError as error:
        why = f"cannot be read ({error.strerror}); give the path of a TOML file"
        raise ConfigError(f"{path}: {why}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text, as a TOML file is") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: is nested too deeply; is it the right file?") from error
    except ValueError as error:  # a number of 5000 digits is one of Python's, not of the parser's
        raise ConfigError(f"{path}: is not valid TOML: {error}") from error


def parse_json(content: bytes | str) -> Any:
    """Parse JSON. ValueError: it is malformed, or nested more deeply than Python reads."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def parse_config(
    settings: Mapping[str, Any], *, overrides: Sequence[str] = (), where: str = "settings"
) -> Config:
    """Return the checked configuration of nested `settings`, `overrides` applied first.

    ConfigError: with every problem found, in one line. Those of `settings` stand behind `where`, those that
    `overrides` have brought behind `--set`.
    """
    task = _merged(settings, overrides)[0].get("task", "translation")
    if not isinstance(task, str) or task not in TASKS:
        place = where if settings.get("task", "translation") == task else "--set"
        raise ConfigError(f"{place}: task = {task!r}: there are {', '.join(TASKS)}")
    return parse_section(TASKS[task], settings, overrides=overrides, where=where)


def parse_section(
    section: type[SettingsT], settings: Mapping[str, Any], *, overrides: Sequence[str] = (), where: str
) -> SettingsT:
    """Return the checked `section` of nested `settings`, `overrides` applied first. ConfigError: as above."""
    merged, refused = _merged(settings, overrides)
    config, problems = _validated(section, merged)
    if config is not None and not refused:
        return config
    alone = _validated(section, settings)[1] if overrides else problems
    of_settings = "; ".join(problem for problem in problems if problem in alone)
    brought = "; ".join(problem for problem in problems if problem not in alone)
    parts = [f"{where}: {of_settings}" * bool(of_settings), *refused, f"--set: {brought}" * bool(brought)]
    raise ConfigError("; ".join(filter(None, parts)))


def _merged(settings: Mapping[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return `settings` with each "section.key=value" in them, and a message for each that is malformed."""
    merged, refused = dict(settings), []
    for override in overrides:
        key, equals, value = (part.strip() for part in override.partition("="))
        *sections, name = key.split(".")
        if not (equals and name and all(sections)):
            refused.append(f"--set {override}: is not of the form section.key=value")
            continue
        target: dict[str, Any] = merged
        for section in sections:  # each becomes a copy: the caller's settings stay as they are
            if not isinstance(inner := target.get(section, {}), Mapping):
                refused.append(f"--set {override}: {key} is not a setting")
                break
            target[section] = dict(inner)
            target = target[section]
        else:
            try:
                target[name] = tomllib.loads(f"value = {value}")["value"]
            except (ValueError, RecursionError):  # also a number of thousands of digits, a list in a list ...
                target[name] = value  # no TOML value is a string, so that quotes may be left out
    return merged, refused


def _validated(section: type[SettingsT], settings: Mapping[str, Any]) -> tuple[SettingsT | None, list[str]]:
    """Return `settings` as a `section`, or None and their mistakes."""
    try:
        return section.model_validate(settings), []
    except ValidationError as error:
        errors = error.errors()
        problems = [_describe(problem, section) for problem in errors[:MAX_PROBLEMS]]
        return None, problems + [f"and {len(errors) - MAX_PROBLEMS:,} more"] * (len(errors) > MAX_PROBLEMS)


def to_toml(config: Config) -> str:
    """Return the configuration as TOML, every default written out.

    `load_recipe` reads it back to an equal one.
    """
    return tomli_w.dumps(config.model_dump(mode="json"))


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80
"""How a value that is wrong is shown, whatever its size."""


def _describe(problem: Any, recipe: type[BaseModel]) -> str:
    """One validation problem in words, with the closest known name for an unknown one."""
    location = [str(part) for part in problem["loc"]]
    name = ".".join(location)
    if problem["type"] == "extra_forbidden":
        if sentence := instead_of(name):
            return sentence
        if location == ["distillation"]:
            return "[distillation] lets other runs write the text first: `dragoman reproduce` does"
        return f"{name} is not a setting; {_hint(location, dict(_sections(recipe)))}"
    if problem["type"] == "missing":
        return f"{name} is missing"
    message = str(problem["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if problem["type"] == "value_error":
        return f"{name}: {message}" if name else message
    return f"{name} = {_REPR.repr(problem['input'])}: {message}"


def _sections(section: type[BaseModel], path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the path of each section, as "data." or, in a list, "data.corpora[].", and the names in it."""
    yield path, sorted(section.model_fields)
    for name, field in section.model_fields.items():
        is_list = get_origin(field.annotation) is tuple
        inner = get_args(field.annotation)[0] if is_list else field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _sections(inner, f"{path}{name}{'[]' * is_list}.")


def _hint(location: Sequence[str], sections: Mapping[str, Sequence[str]]) -> str:
    """Suggest settings for an unknown name: the same one elsewhere, or a similar one; or list those there."""
    *within, name = location
    path = "".join(f"{part}." for part in within)
    beside = sections.get(re.sub(r"\.\d+\.", "[].", path), [])
    elsewhere: dict[str, list[str]] = {}
    for section, names in sections.items():
        for each in names if "[]" not in section else ():
            if f"{section}{each}." not in sections:
                elsewhere.setdefault(each, []).append(f"{section}{each}")
    meant = (
        elsewhere.get(name)
        or [f"{path}{near}" for near in _near(name, beside)]
        or [full for near in _near(name, [*elsewhere]) for full in elsewhere[near]]
    )
    return f"did you mean {' or '.join(meant)}?" if meant else f"known are {', '.join(beside)}"


def _near(name: str, names: Sequence[str]) -> list[str]:
    """Return those of `names` that `name` misspells, abbreviates to initials, or is a word of."""
    return (
        difflib.get_close_matches(name, names, n=1)
        or [each for each in names if len(name) > 1 and "".join(w[:1] for w in each.split("_")) == name]
        or [each for each in names if name in each.split("_")]
    )
