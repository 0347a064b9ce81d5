"""What a training is asked for: the keywords of `dragoman.config_for`, and options of `dragoman train`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

from dragoman.errors import ConfigError

Files = str | Sequence[str]
"""One file, or several."""


@dataclass(frozen=True)
class TrainingRequest:
    """The text to learn from, and what to change.

    A field with a description is an option of the command line, and its description the help.
    """

    file: str | Path | None = None
    """A recipe.toml, a file with both sides of the text, or, for classification, labelled texts."""
    _: KW_ONLY
    task: Annotated[str | None, "classification if the file holds texts and labels."] = None
    text_column: Annotated[
        int | str | None, "Column of the text: name, or number from 0.  [default: (detected)]"
    ] = None
    label_column: Annotated[
        int | str | None, "Column of the label: name, or number from 0.  [default: (detected)]"
    ] = None
    label_separator: Annotated[
        str,
        'Separator of the labels of a text that may have several, as "|".  [default: (one label per text)]',
    ] = ""
    valid: Annotated[str | None, "Labelled texts for validation; default: hold out a part."] = None
    src: Annotated[Files, "Source sentences, one per line; repeatable."] = ()
    tgt: Annotated[Files, "Translations of --src, line by line; one file for each --src."] = ()
    tsv: Annotated[
        Files, "File of pairs: .tmx, .po, .csv, .jsonl, .parquet, or tab-separated; repeatable."
    ] = ()
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
    src_lang: Annotated[str | None, "Source language.  [default: (from the name, as in train.en)]"] = None
    tgt_lang: Annotated[str | None, "Target language.  [default: (from the name, as in train.de)]"] = None
    both_ways: Annotated[bool, "Train every corpus in both directions, in one model."] = False
    mix: Annotated[
        Mapping[str, float] | None,
        "Share of a corpus in training, by the name of its file; repeatable.  [default: (by size)]",
    ] = None
    preset: Annotated[
        str | None,
        "Settings for files: fast (a third of the time), default, or quality (three times).  "
        "[default: (default)]",
    ] = None
    robust: Annotated[
        bool, "Alter a part of the pairs: capitals, typing mistakes, merged lines and more."
    ] = False
    overrides: Annotated[Sequence[str], "Change one setting; repeatable."] = ()
    start: Annotated[str | Path | None, "Fine-tune this run, with its vocabulary and weights."] = None
    extend_vocab: Annotated[int, "With --from: maximum new tokens to add to the vocabulary."] = 0
    replay: Annotated[
        float, "With --from: share of the training pairs taken from the text of that run; 0 = none."
    ] = 0.0
    say: Callable[[str], Any] = lambda message: None
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
        given = any((*files, self.test_src, self.test_tgt, self.both_ways, self.mix))
        return given or (self.columns, *self.languages) != (None, None, None)


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
