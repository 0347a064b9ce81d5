"""`dragoman train`: a recipe, or the files of a corpus and nothing else, becomes a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dragoman.cli.app import INTERRUPTED, PAUSED, TERMINATED, command_line, finite, say
from dragoman.errors import ConfigError, MissingExtraError, require

if TYPE_CHECKING:
    from dragoman.config import Config, TranslationConfig
    from dragoman.runs import Run

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; may be repeated."),
]
TextColumn = Annotated[
    str | None,
    typer.Option(help="Column of the text: its name, or its number from 0.", show_default="guessed"),
]
LabelColumn = Annotated[str | None, typer.Option(help="Column of the label.", show_default="guessed")]
Columns = Annotated[
    str | None, typer.Option(metavar="SRC,TGT", help="Columns of one file: names, or numbers from 0.")
]


SPLIT_SEED = 1
"""Of trainings on files: runs of different seeds then hold out the same text."""


class Text(NamedTuple):
    """What the options say of parallel text."""

    train: tuple[tuple[str, ...], ...] = ()
    """The files of each corpus."""
    valid: tuple[tuple[str, ...], ...] = ()
    languages: tuple[str | None, str | None] = (None, None)
    columns: tuple[int | str, int | str] | None = None
    test: tuple[tuple[str, ...], ...] = ()

    def data(self, languages: tuple[str, str], **settings: Any) -> dict[str, Any]:
        """The section [data] that says so, with other `settings`."""
        names = {"src_lang": languages[0], "tgt_lang": languages[1]}
        columns = {} if self.columns is None else {"columns": list(self.columns)}
        corpora: dict[str, Any] = {"train": self.train, "valid": self.valid, "split_seed": SPLIT_SEED}
        corpora |= {"test": {"test": self.test}} if self.test else {}
        return {**names, **corpora, **columns, **settings}


def register(app: typer.Typer) -> None:
    app.command()(train)


def train(
    recipe: Annotated[
        Path | None,
        typer.Argument(
            help="A recipe.toml, or a file with both sides, as for --tsv; with --task one of labelled texts.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="classification: the file holds texts and labels.", show_default=False)
    ] = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    valid: Annotated[
        str | None, typer.Option(help="Labelled texts for validation. Else a part is held out.")
    ] = None,
    src: Annotated[
        list[str] | None, typer.Option(help="Source sentences, one a line; repeatable.", show_default=False)
    ] = None,
    tgt: Annotated[
        list[str] | None,
        typer.Option(help="Their translations, line by line; one file for each --src.", show_default=False),
    ] = None,
    tsv: Annotated[
        list[str] | None,
        typer.Option(
            help="Both sides in one file: .tmx, .po, .csv, .jsonl, .parquet, or tab-separated; repeatable.",
            show_default=False,
        ),
    ] = None,
    columns: Columns = None,
    valid_src: Annotated[
        list[str] | None, typer.Option(help="Sources for validation; repeatable.", show_default=False)
    ] = None,
    valid_tgt: Annotated[
        list[str] | None,
        typer.Option(help="Their translations. Else a part is held out.", show_default=False),
    ] = None,
    valid_tsv: Annotated[
        list[str] | None, typer.Option(help="Both sides in one file; repeatable.", show_default=False)
    ] = None,
    test_src: Annotated[
        list[str] | None, typer.Option(help="Sources of the test set; repeatable.", show_default=False)
    ] = None,
    test_tgt: Annotated[
        list[str] | None, typer.Option(help="Their references, for evaluate and compare.", show_default=False)
    ] = None,
    src_lang: Annotated[str | None, typer.Option(help="Language of the source, as in train.en.")] = None,
    tgt_lang: Annotated[str | None, typer.Option(help="Language of the target, as in train.de.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/<name> unless given.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="For files: fast (a third of the time), default, or quality (three times).",
            show_default="default",
        ),
    ] = None,
    overrides: Overrides = None,
    start: Annotated[
        Path | None, typer.Option("--from", help="A run to start from, with its tokens and weights.")
    ] = None,
    extend_vocab: Annotated[
        int, typer.Option(help="With --from: tokens of the new text to add to the old ones, at most.", min=0)
    ] = 0,
    max_hours: Annotated[
        float,
        typer.Option(
            help="Save and leave after so many hours, with exit code 75; 0: no limit.",
            min=0.0,
            max=1e6,
            callback=finite,
        ),
    ] = 0.0,
    processes: Annotated[
        int, typer.Option(help="Processes that train together on this machine.", min=1, max=1024)
    ] = 1,
    allow_changed_data: Annotated[
        bool, typer.Option("--allow-changed-data", help="Continue although the text has changed.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check", help="Refuse text with equal or shifted sides; --no-check only warns."
        ),
    ] = True,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also log to the run's folder tensorboard/.")
    ] = False,
    wandb: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Also log to a project of Weights & Biases.")
    ] = None,
) -> None:
    """Train a translator or a classifier: from a recipe, or from files.

    Without a recipe, architecture, vocabulary and steps are chosen by the size of the corpus and written
    to the run's config.toml. The same command continues a training that was interrupted.
    """
    if tensorboard:
        require("tensorboard", extra="tensorboard", purpose="--tensorboard")
    if wandb:
        require("wandb", extra="wandb", purpose="--wandb")
    text = Text(
        _corpora("train", src=src, tgt=tgt, tsv=tsv),
        _corpora("valid", src=valid_src, tgt=valid_tgt, tsv=valid_tsv),
        (src_lang, tgt_lang),
        None if columns is None else two_columns(columns),
        _corpora("test", src=test_src, tgt=test_tgt, tsv=None),
    )
    config = configuration(
        recipe,
        text,
        task=task,
        labelled={"valid": valid, "text_column": text_column, "label_column": label_column},
        start=start,
        extend_vocab=extend_vocab,
        preset=preset,
        overrides=overrides or [],
    )
    out = out or Path("runs") / config.name
    config = split_as_before(config, out)
    if processes > 1:
        options = ["--tensorboard"] * tensorboard + (["--wandb", wandb] if wandb else [])
        options += ["--allow-changed-data"] * allow_changed_data
        train_together(processes, config, out, max_hours=max_hours, options=options, check=check)
        return
    path = run_training(
        config,
        out,
        max_hours=max_hours,
        allow_changed_data=allow_changed_data,
        check=check,
        tensorboard=tensorboard,
        wandb=wandb,
    )
    if not speaks():
        return
    if config.task == "classification":
        from dragoman.cli.evaluate_classifier import print_validation
        from dragoman.runs import Run

        print_validation(Run.open(path), config)
    say(f"next: {command_line('evaluate', path)}")
    say(f"      {command_line(config.names.verb, path)}")
    typer.echo(path)


def configuration(
    recipe: Path | None,
    text: Text,
    *,
    task: str | None,
    labelled: dict[str, str | None],
    start: Path | None,
    extend_vocab: int,
    preset: str | None,
    overrides: list[str],
) -> Config:
    """What to train: a recipe, what suits files, or either of them from a trained model on.

    ConfigError: options that say nothing together, or contradict one another.
    """
    if task not in (None, "translation", "classification"):
        raise ConfigError(f"--task {task}: there are translation and classification")
    if task != "classification" and any(labelled.values()):
        raise ConfigError("--text-column, --label-column and --valid are for --task classification")
    if task != "classification" and recipe is not None and recipe.suffix != ".toml":
        text, recipe = text_of_file(recipe, text, is_clear=bool(task or start)), None
    if extend_vocab and start is None:
        raise ConfigError("--extend-vocab goes with --from RUN")
    if preset and (recipe is not None or start is not None or task == "classification"):
        raise ConfigError("--preset is for the files of a translator; change other settings with --set")
    if recipe is not None and task != "classification" and text != Text():
        raise ConfigError(
            f"{recipe} names its own files and languages; leave --src, --tgt and the like away, "
            "or change the recipe with --set"
        )
    if start is not None:
        if task == "classification" or any(text.languages):
            raise ConfigError(
                f"--from {start} takes task and languages over; leave --task and --src-lang away"
            )
        return config_from(start, recipe, text, extend_vocab=extend_vocab, overrides=overrides)
    if task == "classification":
        if text != Text():
            raise ConfigError("a classifier has no source and target; give one file of texts and labels")
        from dragoman.cli.train_classifier import config_of_classifier

        return config_of_classifier(recipe, **labelled, overrides=overrides)
    if recipe is not None:
        return config_of_recipe(recipe, task=task, overrides=overrides)
    if text.train:
        return settings_for(text, preset=preset or "default", overrides=overrides)
    raise ConfigError(
        "nothing to train on; give a recipe.toml, or --src and --tgt, or --tsv, "
        "or a file of labelled texts and --task classification"
    )


def split_as_before(config: Config, out: Path) -> Config:
    """`config`, held out by `seed` if the run in `out` was begun by a version that knew no split_seed."""
    from dragoman.runs import Run

    began = (out / "config.toml").exists() and Run.open(out).config.data.split_seed < 0
    if not began or config.data.split_seed != SPLIT_SEED:
        return config
    return config.model_copy(update={"data": config.data.model_copy(update={"split_seed": -1})})


def text_of_file(file: Path, text: Text, *, is_clear: bool) -> Text:
    """`text` with the corpus in `file` before its others.

    ConfigError: it is a folder; or neither its name nor `is_clear` says that it holds translations.
    """
    from dragoman.data.readers.files import format_suffix

    if file.is_dir():
        raise ConfigError(f"{file}: is a folder; give a recipe.toml, or a file of text")
    if not (is_clear or any(text.languages) or format_suffix(file.name) in (".tmx", ".po")):
        raise ConfigError(
            f"{file}: is not a recipe.toml; to learn its translations say their languages, as in "
            "--src-lang en --tgt-lang de, to learn its labels add --task classification"
        )
    return text._replace(train=((file.as_posix(),), *text.train))


def config_of_recipe(recipe: Path, *, task: str | None, overrides: list[str]) -> Config:
    """The configuration in the file `recipe`. ConfigError: it is none, or for another task."""
    from dragoman.config import load_recipe

    config = load_recipe(recipe, overrides)
    if task is not None and config.task != task:
        raise ConfigError(f"{recipe}: is a recipe for {config.task}; leave --task away")
    return config


def settings_for(text: Text, *, preset: str, overrides: list[str]) -> TranslationConfig:
    """The configuration for a corpus of which nothing but its files is known.

    ConfigError: the languages are not said and the files do not tell them.
    """
    from dragoman.config import parse_config
    from dragoman.presets import preset_for, steps_per_pass

    languages = languages_of(text)
    data = text.data(languages)
    n_pairs = count_pairs(data, overrides)
    config = parse_config(
        {"name": "-".join(languages), "data": data, **preset_for(n_pairs, preset)},
        overrides=overrides,
        where="settings chosen by corpus size",
    )
    assert config.task == "translation"
    training = config.training
    n_passes = training.max_steps / steps_per_pass(n_pairs, training.batch_tokens * training.update_freq)
    say(
        f"{n_pairs:,} pairs, {config.subject}{'' if all(text.languages) else ' (as the files say)'}: "
        f"{config.model.n_encoder_layers}+{config.model.n_decoder_layers} layers of "
        f"{config.model.d_model}, {config.tokenizer.vocab_size:,} tokens, {training.max_steps:,} steps "
        f"(about {n_passes:,.0f} passes)"
    )
    return config


def count_pairs(data: dict[str, Any], overrides: list[str]) -> int:
    """The pairs with text on both sides in the corpus that a section [data] names, `overrides` on top."""
    from dragoman.config import ParallelText, parse_section
    from dragoman.data.corpora import has_text, open_corpus

    own = [override for override in overrides if override.lstrip().startswith("data.")]
    there = parse_section(ParallelText, {"data": data}, overrides=own, where="the files").data
    corpus = open_corpus(there.train, src_lang=there.src_lang, tgt_lang=there.tgt_lang, columns=there.columns)
    return sum(map(has_text, corpus.pairs()))


def languages_of(text: Text) -> tuple[str, str]:
    """The languages of parallel text, as said or as its files tell. ConfigError: they tell none, or more."""
    from dragoman.data.readers.files import find_file, format_suffix
    from dragoman.data.readers.formats import tmx_languages
    from dragoman.presets import guess_language

    src, tgt = text.languages
    found = set()
    for first, *second in text.train:
        if src and tgt:
            found.add((src, tgt))
        elif second:
            said = src or guess_language(first, option="--src-lang")
            found.add((said, tgt or guess_language(second[0], option="--tgt-lang")))
        else:
            told = tmx_languages(find_file(first)) if format_suffix(first) == ".tmx" else None
            if told is None:
                raise ConfigError(f"{first}: say its languages, as in --src-lang en --tgt-lang de")
            told = told[::-1] if src == told[1] or tgt == told[0] else told
            found.add((src or told[0], tgt or told[1]))
    if len(found) > 1:
        told_all = ", ".join(sorted("-".join(pair) for pair in found))
        raise ConfigError(f"the files are in several languages ({told_all}); say --src-lang and --tgt-lang")
    return found.pop()


def train_together(
    processes: int, config: Config, out: Path, *, max_hours: float, options: Sequence[str], check: bool
) -> None:
    """Trains with several processes of this machine: commands of their own, of which the first speaks."""
    from dragoman.runs import Run, only_writer
    from dragoman.training.loop import report_on_text
    from dragoman.training.parallel.launching import launch
    from dragoman.training.parallel.processes import device_of_process

    device_of_process(config.training.device, 0, n_processes=processes)  # complains before there is a run
    report_on_text(config, out, say, check=check)
    with only_writer(out):  # complains before processes are started, which hold the lock themselves
        run = Run.create(out, config)
    if code := launch(processes, run, max_hours=max_hours, options=options, say=say):
        if code in (PAUSED, INTERRUPTED, TERMINATED):
            say(f"to continue: {command_line()}")
        raise typer.Exit(code)


def speaks() -> bool:
    """Whether this is the process that speaks, where torchrun has started several."""
    return os.environ.get("RANK", "0") == "0"


def config_from(
    start: Path, recipe: Path | None, text: Text, *, extend_vocab: int, overrides: list[str]
) -> TranslationConfig:
    """The configuration of a training that starts from the run `start`, on a recipe's text or on files.

    Model, tokens and languages are those of the run. Without a recipe the rest is what suits a corpus of this
    size, with a third of rate and steps. ConfigError: the run is no translator, or no text is named.
    """
    from dragoman.config import parse_config, read_settings, usual_max_length
    from dragoman.presets import fine_tuning_for
    from dragoman.runs import Run

    there = Run.open(start).config
    if there.task != "translation":
        raise ConfigError(f"--from {start}: is a classifier, and only translators are taken further")
    if recipe is not None:
        settings = read_settings(recipe)
    elif text.train:
        data = text.data(there.languages, max_length=usual_max_length(there.model))
        training = fine_tuning_for(count_pairs(data, overrides))
        settings = {"name": f"{there.name}-adapted", "data": data, "training": training}
    else:
        raise ConfigError("--from needs new text: a recipe, --src and --tgt, or --tsv")
    settings["model"] = there.model.model_dump()
    settings["tokenizer"] = there.tokenizer.model_dump()
    settings.setdefault("search", there.search.model_dump())
    taken = {"start_from": str(start), "extend_vocab": extend_vocab}
    settings["training"] = {**settings.get("training", {}), **taken}
    config = parse_config(
        settings, overrides=overrides, where=str(recipe or "settings chosen by corpus size")
    )
    assert config.task == "translation"
    return config


def run_training(
    config: Config,
    out: Path,
    *,
    max_hours: float = 0.0,
    allow_changed_data: bool = False,
    check: bool = True,
    tensorboard: bool = False,
    wandb: str | None = None,
) -> Path:
    """Trains with a progress bar on stderr, and draws the learning curves; the run's path."""
    from dragoman.cli.listener import TerminalListener
    from dragoman.cli.loggers import Listeners, TensorBoardListener, WandbListener
    from dragoman.errors import PausedError
    from dragoman.runs import Run
    from dragoman.training.listener import TrainingListener
    from dragoman.training.loop import train

    try:
        with TerminalListener() as terminal:
            listeners: list[TrainingListener] = [terminal]
            if speaks() and tensorboard:
                listeners.append(TensorBoardListener(out / "tensorboard"))
            if speaks() and wandb:
                listeners.append(WandbListener(wandb, out))
            path = train(
                config,
                out,
                listener=Listeners(listeners),
                max_hours=max_hours,
                allow_changed_data=allow_changed_data,
                check=check,
            )
    except (KeyboardInterrupt, PausedError) as stop:
        if "RANK" not in os.environ:  # else what has started several processes says it
            say(f"to continue: {command_line()}")
        if isinstance(stop, PausedError):
            raise
        raise typer.Exit(INTERRUPTED) from None
    if speaks():
        draw_curves(Run.open(path))
    return path


def draw_curves(run: Run) -> None:
    """Writes the learning curves into the run; without matplotlib, says how to get it."""
    from dragoman.report.curves import CURVES, plot_learning_curves

    try:
        plot_learning_curves(run, run.path / CURVES)
        say(f"learning curves: {run.path / CURVES}")
    except MissingExtraError as error:
        say(str(error))


def column(value: str | None) -> int | str | None:
    """A column as the user names it: a number, counted from 0, or a name."""
    return None if value is None else _number_or_name(value)


def two_columns(said: str) -> tuple[int | str, int | str]:
    """The columns of source and target. ConfigError: they are not two."""
    src, _, tgt = said.partition(",")
    if not (src and tgt):
        raise ConfigError(f"--columns {said}: name two, as in --columns 0,1")
    return _number_or_name(src), _number_or_name(tgt)


def _number_or_name(said: str) -> int | str:
    return int(said) if said.isdigit() else said


def _corpora(
    what: str, *, src: list[str] | None, tgt: list[str] | None, tsv: list[str] | None
) -> tuple[tuple[str, ...], ...]:
    """The files of each corpus named. ConfigError: one is missing, or there are both kinds."""
    prefix = "--" if what == "train" else f"--{what}-"
    sources, targets = src or [], tgt or []
    if tsv and (sources or targets):
        raise ConfigError(f"give {prefix}src and {prefix}tgt, or {prefix}tsv, but not both")
    if len(sources) != len(targets):
        there, missing = ("src", "tgt") if len(sources) > len(targets) else ("tgt", "src")
        raise ConfigError(
            f"{prefix}{there} needs {prefix}{missing} beside it, with a translation on each line"
        )
    return (*zip(sources, targets, strict=True), *((file,) for file in tsv or []))
