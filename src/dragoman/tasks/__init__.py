"""What Dragoman learns: translation and classification, each behind the interface `tasks.task.Task`.

A task owns everything above training that depends on it. The command line, reports, comparisons and
reproductions ask the task and do not branch. `TASKS` is where a new one is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from dragoman.config import Column, Config
    from dragoman.tasks.task import Task

TASKS = {
    "translation": "dragoman.tasks.translation.task:TranslationTask",
    "classification": "dragoman.tasks.classification.task:ClassificationTask",
}
"""The class of each task by the name it has in config.toml; imported on first use."""


def task_named(name: str) -> Task:
    """Return the task of this name. ConfigError: there is none."""
    if name not in TASKS:
        raise ConfigError(f"--task {name}: is unknown; give {' or '.join(TASKS)}")
    module, _, cls = TASKS[name].partition(":")
    task: Task = getattr(import_module(module), cls)()
    return task


def task_of(config: Config) -> Task:
    """Return the task that `config` describes."""
    return task_named(config.task)


def config_for(
    file: str | Path | None = None,
    *,
    task: str | None = None,
    src: str | Sequence[str] = (),
    tgt: str | Sequence[str] = (),
    tsv: str | Sequence[str] = (),
    columns: tuple[Column, Column] | None = None,
    valid_src: str | Sequence[str] = (),
    valid_tgt: str | Sequence[str] = (),
    valid_tsv: str | Sequence[str] = (),
    test_src: str | Sequence[str] = (),
    test_tgt: str | Sequence[str] = (),
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    both_ways: bool = False,
    mix: Mapping[str, float] | None = None,
    valid: str | None = None,
    text_column: Column | None = None,
    label_column: Column | None = None,
    label_separator: str = "",
    start: str | Path | None = None,
    extend_vocab: int = 0,
    replay: float = 0.0,
    preset: str | None = None,
    robust: bool = False,
    overrides: Sequence[str] = (),
    say: Callable[[str], Any] = lambda message: None,
) -> Config:
    """Return the configuration of a training on these files, as `dragoman train` chooses it.

    Architecture, vocabulary and steps follow from the size of the corpus. With `file` a recipe.toml, return
    that recipe; with `start`, one that goes on from a trained run.

    Args:
        file: A recipe.toml, a file with both sides of the text, or, for classification, labelled texts.
        task: "translation" or "classification"; by default that of the recipe, or translation.
        src: Files of source sentences, one a line.
        tgt: Their translations, line by line: one file for each of `src`.
        tsv: Files with both sides: .tmx, .po, .csv, .jsonl, .parquet or tab-separated.
        columns: Columns of source and target in files with both sides: names, or numbers from 0.
        valid_src: As `src`, for validation; without it, a part of the text is held out.
        valid_tgt: As `tgt`, for validation.
        valid_tsv: As `tsv`, for validation.
        test_src: As `src`, for the test set.
        test_tgt: As `tgt`, for the test set.
        src_lang: Language of the source; by default as the names of the files tell.
        tgt_lang: Language of the target.
        both_ways: Train every corpus in both directions.
        mix: Shares of the corpora among the pairs, by the names of their first files without endings; by
            default as many as they have. Files in several languages are corpora of one model.
        valid: Labelled texts for validation.
        text_column: Column of the text in labelled files; by default as the head of the file tells.
        label_column: Column of the label.
        label_separator: What is between the labels of a text that has several, as "|"; "" = each has one.
        start: A run to go on from, with its tokens and weights.
        extend_vocab: With `start`: tokens of the new text to add to the old ones, at most.
        replay: With `start`: share of the training pairs that are taken from the text that it was trained
            on, from 0 to 1; its validation pairs stay held out.
        preset: "fast", "default" or "quality", for the files of a translator.
        robust: Alter a part of the pairs, so that text unlike the corpus is translated better: the rates of
            `presets.ROBUST` for the section [modifiers].
        overrides: Settings to change, as "training.max_steps=500".
        say: Called with each line about what was chosen.

    Raises:
        ConfigError: files or settings contradict one another, or languages are missing.
        DataError: a file is missing or damaged.
        RunError: `start` is not a run.
    """
    from dragoman.data.readers.columns import by_name
    from dragoman.tasks.task import ParallelFiles, TrainingRequest, corpora

    if task is not None:
        task_named(task)
    first = str(file or (tsv if isinstance(tsv, str) else next(iter(tsv), "")))
    columns = columns and by_name(first, columns)
    if text_column is not None and label_column is not None:
        text_column, label_column = by_name(first, (text_column, label_column))
    parallel = ParallelFiles(
        corpora("train", src=src, tgt=tgt, tsv=tsv),
        corpora("valid", src=valid_src, tgt=valid_tgt, tsv=valid_tsv),
        (src_lang, tgt_lang),
        columns,
        corpora("test", src=test_src, tgt=test_tgt, tsv=()),
        both_ways,
        mix or {},
    )
    request = TrainingRequest(
        file=None if file is None else Path(file),
        task=task,
        parallel=parallel,
        valid=valid,
        text_column=text_column,
        label_column=label_column,
        label_separator=label_separator,
        start=None if start is None else Path(start),
        extend_vocab=extend_vocab,
        replay=replay,
        preset=preset,
        robust=robust,
        overrides=tuple(overrides),
        say=say,
    )
    return task_named(task or "translation").config_for(request)
