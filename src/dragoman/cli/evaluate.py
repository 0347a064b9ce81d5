"""`dragoman evaluate` and `dragoman score`: how good translations are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.app import check_outputs, say
from dragoman.cli.evaluate_classifier import describe_saved as describe_saved_labels
from dragoman.cli.evaluate_classifier import evaluate_classifier, labelled_tests
from dragoman.cli.train import LabelColumn, TextColumn, column
from dragoman.cli.translate import (
    BatchSentences,
    BeamSize,
    CoveragePenalty,
    Device,
    EngineName,
    Ensemble,
    LengthPenalty,
    NoRepeatedNgram,
    Precision,
    RunPath,
    load_translator,
)
from dragoman.errors import ConfigError, DataError

if TYPE_CHECKING:
    from dragoman.data.corpora import Corpus, Pair
    from dragoman.evaluation.translation import Evaluation
    from dragoman.metrics.score import Score
    from dragoman.runs import Run

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    app.command()(evaluate)
    app.command()(score)


def evaluate(
    run: RunPath,
    split: Annotated[
        str | None, typer.Option(help="test or valid.", show_default="test, or valid where there is none")
    ] = None,
    src: Annotated[str | None, typer.Option(help="Translate this file instead ...")] = None,
    ref: Annotated[str | None, typer.Option(help="... and score against this one.")] = None,
    file: Annotated[str | None, typer.Option(help="Classify this labelled file instead.")] = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    out: Annotated[
        Path | None, typer.Option(help="Write translations or labels here, or one file per test here.")
    ] = None,
    baseline: Annotated[
        bool, typer.Option("--baseline/--no-baseline", help="Score a bag of n-grams beside a classifier.")
    ] = True,
    as_json: AsJson = False,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    coverage_penalty: CoveragePenalty = None,
    no_repeat_ngram: NoRepeatedNgram = None,
    ensemble: Ensemble = None,
    engine: EngineName = "native",
    batch_sentences: BatchSentences = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Score a run on its test sets: translations by BLEU, chrF and TER, labels by accuracy and F1.

    Each score has its 95 % interval and its signature. The run's scores.json keeps them, but for runs of the
    hub. A classifier stands beside a baseline that was trained on the same texts.
    """
    from dragoman.evaluation.scores import keep_scores
    from dragoman.evaluation.translation import evaluate as evaluate_pairs
    from dragoman.runs import Run

    opened = Run.open(run)
    settings = {
        "beam_size": beam_size, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty,
        "no_repeat_ngram": no_repeat_ngram,
    }  # fmt: skip
    if opened.config.task == "classification":
        _refuse("classifier", src=src, ref=ref, **settings, batch_sentences=batch_sentences,
                ensemble=ensemble, engine=None if engine == "native" else engine)  # fmt: skip
        labelled = labelled_tests(
            opened, split=split, file=file, text_column=column(text_column), label_column=column(label_column)
        )
        places = places_of(out, list(labelled), files=[file], runs=[opened])
        evaluate_classifier(
            opened,
            labelled,
            places=places,
            as_json=as_json,
            baseline=baseline,
            device=device,
            precision=precision,
        )
        return
    _refuse("translator", file=file, text_column=text_column, label_column=label_column)
    tests = test_sets(opened, split=split, src=src, ref=ref)
    places = places_of(out, list(tests), files=[src, ref], runs=[opened, *map(Run.open, ensemble or ())])
    translator = load_translator(
        run, device=device, precision=precision, batch_sentences=batch_sentences, ensemble=ensemble or (),
        engine=engine,
    )  # fmt: skip
    means: dict[str, Any] = {"ensemble": [str(path) for path in ensemble]} if ensemble else {}
    means |= {"engine": engine} if engine != "native" else {}
    evaluations = []
    for name, pairs in tests.items():
        evaluation = evaluate_pairs(translator, name, pairs, settings=settings)
        evaluation = replace(evaluation, other_settings={**evaluation.other_settings, **means})
        say(
            f"{name}: {len(pairs):,} sentences in {evaluation.seconds:.1f} s, "
            f"{evaluation.sentences_per_second:.1f} sentences/s"
        )
        if name in places:
            write_hypotheses(evaluation, places[name])
        if not as_json:
            typer.echo(describe_evaluation(evaluation))
        evaluations.append(evaluation)
    if opened.origin is None:
        keep_scores(opened, [evaluation.record() for evaluation in evaluations])
    if as_json:
        record = {"run": str(run), "results": [evaluation.record() for evaluation in evaluations]}
        typer.echo(json.dumps(record, ensure_ascii=False, indent=2))


def places_of(
    out: Path | None, tests: Sequence[str], *, files: Iterable[str | None], runs: Sequence[Run]
) -> dict[str, Path]:
    """Where to write what is found in each test; {} if `out` is None.

    Raises:
        ConfigError: that is one of `files`, a file of a run, or one that a run names.
    """
    if out is None:
        return {}
    places = {test: out if len(tests) == 1 else out / f"{test}.txt" for test in tests}
    named = [name for run in runs for _, corpus in run.config.data.corpora() for name in corpus]
    check_outputs(*places.values(), files=[*files, *named], runs=[run.path for run in runs])
    return places


def _refuse(what: str, **options: object) -> None:
    """ConfigError: an option was given that means nothing for such a run."""
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if given:
        raise ConfigError(f"{', '.join(given)}: not for a {what}; leave it away")


def score(
    hypotheses: Annotated[Path, typer.Argument(help="Translations, one a line.", show_default=False)],
    references: Annotated[Path, typer.Argument(help="References, line by line.", show_default=False)],
    tgt_lang: Annotated[
        str, typer.Option(help="Their language, which decides how words are told apart.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Score a file of translations against references."""
    from dragoman.data.readers.files import find_file, open_lines
    from dragoman.evaluation.scores import score_record
    from dragoman.evaluation.translation import scores_of

    found, expected = (list(open_lines(find_file(str(p)))) for p in (hypotheses, references))
    if len(found) != len(expected):
        raise DataError(
            f"{hypotheses} has {len(found)} lines and {references} {len(expected)}; "
            "every translation needs its reference on the same line"
        )
    scores = scores_of(found, expected, tgt_lang=tgt_lang)
    if as_json:
        typer.echo(json.dumps([score_record(s) for s in scores], ensure_ascii=False, indent=2))
    else:
        typer.echo(scores_table(scores))


def test_sets(run: Run, *, split: str | None, src: str | None, ref: str | None) -> dict[str, list[Pair]]:
    """The pairs to evaluate, by name. ConfigError: the options contradict each other, or there are none."""
    from dragoman.data.corpora import open_corpus
    from dragoman.evaluation.translation import read_pairs, split_of
    from dragoman.predict.translator import translation_config

    config = translation_config(run)
    data = config.data
    if split not in (None, "test", "valid"):
        raise ConfigError(f"--split {split}: there are test and valid")
    if (src is None) != (ref is None) or (src is not None and split is not None):
        raise ConfigError("give --src and --ref together and without --split, or none of them")
    corpora: dict[str, Corpus]
    if src is not None and ref is not None:
        corpora = {Path(src).name: open_corpus([src, ref], src_lang=data.src_lang, tgt_lang=data.tgt_lang)}
    else:
        run.check_corpora()
        if split is None and not data.test:
            say("the run names no test set, so its validation pairs are translated")
        corpora = dict(split_of(config, split or ("test" if data.test else "valid")))
    if not corpora:
        raise ConfigError(f"{run.config_path} names no test set; say --split valid, or give --src and --ref")
    return {name: read_pairs(corpus) for name, corpus in corpora.items()}


def write_hypotheses(evaluation: Evaluation, path: Path) -> None:
    """Writes the translations, one a line. RunError: the file cannot be written."""
    from dragoman.files import write_atomically

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(f"{line}\n" for line in evaluation.hypotheses).encode())
    say(f"translations: {path}")


def describe_evaluation(evaluation: Evaluation) -> str:
    """A heading and the table of scores."""
    heading = (
        f"{evaluation.name} · {len(evaluation.hypotheses):,} sentences · beam {evaluation.beam_size} · "
        f"length penalty {evaluation.length_penalty:g}"
        f"{others(evaluation.other_settings)}"
    )
    return f"{heading}\n{scores_table(evaluation.scores)}"


def others(settings: Mapping[str, Any]) -> str:
    """Settings as the end of a heading."""
    values = {k: " + ".join(v) if isinstance(v, list) else str(v) for k, v in settings.items()}
    return "".join(f" · {key.replace('_', ' ')} {value}" for key, value in values.items())


def scores_table(scores: Sequence[Score]) -> str:
    """A line for each score: name, value, 95 % interval, signature."""
    rows = [("", "score", "95 % interval", "signature")]
    for s in scores:
        interval = "" if s.interval is None else f"{s.interval[0]:.1f} – {s.interval[1]:.1f}"
        rows.append((s.name, f"{s.value:.1f}", interval, s.signature))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return "\n".join(
        f"  {name:<{widths[0]}}  {value:>{widths[1]}}  {interval:>{widths[2]}}  {signature}"
        for name, value, interval, signature in rows
    )


def describe_saved(record: dict[str, Any]) -> str:
    """One line about an entry of scores.json."""
    if "n_texts" in record:
        return describe_saved_labels(record)
    values = " · ".join(f"{s['name']} {s['value']:.1f}" for s in record["scores"])
    search = f"beam {record['beam_size']}{others(record.get('search', {}))}"
    return f"{record['name']} · {values} · {search} · {record['n_sentences']:,} sentences"
