"""What a training and an evaluation are asked for: fields with a description are options of commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

from dragoman.errors import ConfigError

Files = str | Sequence[str]
"""One file, or several."""


Say = Callable[[str], Any]
"""What is told about work in progress, a line at a time."""
Progress = Callable[[int, int], None]
"""What is told how many sentences of a set are done, out of how many."""
ENSEMBLE = "Add a run with the same vocabulary to an ensemble; repeatable."
TextColumn = Annotated[int | str | None, "Column of the text: name, or number from 0. [default: detected]"]
LabelColumn = Annotated[int | str | None, "Column of the label: name, or number from 0. [default: detected]"]


@dataclass(frozen=True)
class TrainingRequest:
    """The text to learn from, and what to change: keywords of `dragoman.config_for`."""

    file: str | Path | None = None
    """A recipe.toml, a file with both sides of the text, or, for classification, labelled texts."""
    _: KW_ONLY
    task: Annotated[str | None, "classification if the file holds texts and labels."] = None
    text_column: TextColumn = None
    label_column: LabelColumn = None
    label_separator: Annotated[
        str,
        'Separator of the labels of a text that may have several, as "|". [default: one label per text]',
    ] = ""
    valid: Annotated[str | None, "Labelled texts for validation; default: hold out a part."] = None
    src: Annotated[Files, "Source sentences, one per line; repeatable."] = ()
    tgt: Annotated[Files, "Translations of --src, line by line; one file for each --src."] = ()
    tsv: Annotated[Files, "File of pairs: .tmx, .csv, .jsonl, .parquet, or tab-separated; repeatable."] = ()
    columns: Annotated[
        tuple[int | str, int | str] | None,
        "Columns of source and target in a file of pairs: names, or numbers from 0.",
    ] = None
    valid_src: Annotated[Files, "Source sentences for validation; repeatable."] = ()
    valid_tgt: Annotated[
        Files, "Translations of --valid-src; default: hold out a part of the training text."
    ] = ()
    valid_tsv: Annotated[Files, "File of pairs for validation; repeatable."] = ()
    test_src: Annotated[Files, "Source sentences of the test set; repeatable."] = ()
    test_tgt: Annotated[Files, "References of the test set, for evaluate and compare."] = ()
    src_lang: Annotated[str | None, "Source language. [default: from the name, as in train.en]"] = None
    tgt_lang: Annotated[str | None, "Target language. [default: from the name, as in train.de]"] = None
    both_ways: Annotated[bool, "Train every corpus in both directions, in one model."] = False
    mix: Annotated[
        Mapping[str, float] | None,
        "Share of a corpus in training, by the name of its file; repeatable. [default: by size]",
    ] = None
    preset: Annotated[
        str | None,
        "Settings for files: fast (a third of the time), default, or quality (three times). "
        "[default: default]",
    ] = None
    robust: Annotated[
        bool, "Alter a part of the pairs: capitals, typing mistakes, merged lines and more."
    ] = False
    overrides: Annotated[Sequence[str], "Change one setting; repeatable."] = ()
    start: Annotated[str | Path | None, "Fine-tune this run, with its vocabulary and weights."] = None
    extend_vocab: Annotated[int, "With --from: maximum new tokens to add to the vocabulary.", (0, None)] = 0
    replay: Annotated[
        float,
        "With --from: share of the training pairs taken from the text of that run; 0 = none.",
        (0.0, 0.99),
    ] = 0.0
    say: Say = lambda message: None
    """Called with each line about what was chosen."""

    @property
    def recipe(self) -> Path | None:
        """The file, if it is a recipe."""
        return Path(self.file) if self.file is not None and Path(self.file).suffix == ".toml" else None

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Languages of source and target, as given."""
        return self.src_lang, self.tgt_lang

    @property
    def corpora(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """The files of each corpus, one, or a source and a target, to "train", "valid" and "test".

        ConfigError: one is missing, or a corpus is given in both ways.
        """
        corpora = {
            "train": _corpora("--", self.src, self.tgt, self.tsv),
            "valid": _corpora("--valid-", self.valid_src, self.valid_tgt, self.valid_tsv),
            "test": _corpora("--test-", self.test_src, self.test_tgt, ()),
        }
        if self.file is not None and self.recipe is None:
            corpora["train"] = ((Path(self.file).as_posix(),), *corpora["train"])
        return corpora

    @property
    def is_parallel(self) -> bool:
        """Whether an option is given that only parallel text has, `file` apart."""
        files = (self.src, self.tgt, self.tsv, self.valid_src, self.valid_tgt, self.valid_tsv)
        names_some = any((*files, self.test_src, self.test_tgt, self.both_ways, self.mix))
        return names_some or (self.columns, *self.languages) != (None, None, None)


def _corpora(prefix: str, src: Files, tgt: Files, tsv: Files) -> tuple[tuple[str, ...], ...]:
    """Return the files of each corpus named. ConfigError: one is missing, or there are both kinds."""
    sources, targets, files = (
        [names] if isinstance(names, str) else list(names) for names in (src, tgt, tsv)
    )
    if files and (sources or targets):
        raise ConfigError(f"give {prefix}src and {prefix}tgt, or {prefix}tsv, but not both")
    if len(sources) != len(targets):
        present, missing = ("src", "tgt") if len(sources) > len(targets) else ("tgt", "src")
        raise ConfigError(
            f"{prefix}{present} needs {prefix}{missing} beside it, with a translation on each line"
        )
    return (*zip(sources, targets, strict=True), *((file,) for file in files))


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """What to score a run on, and how. An option that is None, or has its default, is the run's own."""

    split: Annotated[str | None, "Test sets: test or valid. [default: test, else valid]"] = None
    to: Annotated[
        str | None, "Target language of a run with several, such as de; or a direction, such as en-de."
    ] = None
    """None: all directions."""
    src: Annotated[str | None, "Use the sentences of this file, not the test sets; with --ref."] = None
    ref: Annotated[str | None, "References of --src, line by line."] = None
    file: Annotated[str | None, "Classify this labelled file, not the test sets."] = None
    text_column: TextColumn = None
    label_column: LabelColumn = None
    baseline: Annotated[bool, "Compare a classifier with a bag-of-n-grams baseline."] = True
    robustness: Annotated[bool, "Also translate altered text: capitals, mistakes, numbers and more."] = False
    beam_size: Annotated[int | None, "Beam size; 1 = greedy. [default: the run's]", (1, None)] = None
    length_penalty: Annotated[
        float | None, "Length penalty; 0 favours short translations. [default: the run's]", (0.0, None)
    ] = None
    coverage_penalty: Annotated[float | None, "Penalty for source tokens without attention.", (0.0, None)] = (
        None
    )
    no_repeat_ngram: Annotated[int | None, "Block repeated n-grams of this size; 0 = off.", (0, None)] = None
    ensemble: Annotated[tuple[Path, ...], ENSEMBLE] = ()
    batch_sentences: Annotated[int | None, "Sentences per batch. [default: the run's]", (1, None)] = None
    scores: Annotated[
        tuple[str, ...],
        "Add scores of another tool: one number per line, higher is better; once per NAME and test set.",
    ] = ()
    """NAME=FILE each, as `read_given_scores` reads them."""
    device: Annotated[str, "auto, cpu, cuda or cuda:1."] = "auto"
    precision: Annotated[str, "fp32, bf16 or int8; auto = chosen for the device."] = "auto"
    n_examples: int = 5
    """Sentences of each kind that a report shows."""
    say: Say = lambda message: None
    progress: Progress = lambda n_done, n_all: None

    def __post_init__(self) -> None:
        """ConfigError: there is no such split."""
        if self.split not in (None, "test", "valid"):
            raise ConfigError(f"--split {self.split}: there are test and valid")

    @property
    def search(self) -> dict[str, Any]:
        """The settings of [search] that are given."""
        names = ("beam_size", "length_penalty", "coverage_penalty", "no_repeat_ngram")
        return {name: value for name in names if (value := getattr(self, name)) is not None}
