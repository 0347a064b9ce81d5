"""The task of translation: what the interface of a task asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.config import Config, read_settings
from dragoman.data.corpora import DEFAULT_COLUMNS, PHRASEBOOK, open_corpus
from dragoman.data.phrasebook import LANGUAGES, unseen_phrases
from dragoman.data.readers.columns import by_name
from dragoman.data.readers.files import format_suffix
from dragoman.data.records import Corpus, Pair
from dragoman.errors import ConfigError, counted
from dragoman.evaluation.scores import keep_scores
from dragoman.files import recipes_folder
from dragoman.predict.model import translation_config
from dragoman.predict.translator import Translator
from dragoman.presets import guess_language
from dragoman.report.curves import Curves
from dragoman.report.page import Page
from dragoman.runs import Run
from dragoman.tasks.request import EvaluationRequest, Say, TrainingRequest
from dragoman.tasks.task import (
    DemoTable,
    Languages,
    Opener,
    Task,
)
from dragoman.tasks.translation.comparison import TranslatorComparison, compare_translators
from dragoman.tasks.translation.configuring import config_for
from dragoman.tasks.translation.evaluation import (
    TranslationScores,
    evaluate,
    is_other_text,
    load_translator,
    read_pairs,
    split_of,
)
from dragoman.tasks.translation.kept import Translations, read_given_scores, with_given_scores
from dragoman.tasks.translation.report import translation_page
from dragoman.tasks.translation.robustness import Robustness, robustness

if TYPE_CHECKING:
    from dragoman.training.objective import Objective

RECIPE = "phrasebook-en-de"
"""What the demo trains, for whichever languages."""

LOW_BLEU = 20.0
"""Score below which a training says what it means: the gist is hard to get; below a half, nothing is."""

N_SHOWN = 12
"""Translations that the demo shows."""


class TestSet(NamedTuple):
    """Pairs to score a direction on."""

    direction: tuple[str, str]
    pairs: list[Pair]


class TranslationTask(Task):
    """Parallel text in, a translator out, scored by BLEU, chrF and TER."""

    noun = "translator"
    foreign = ("file", "text_column", "label_column")

    @property
    def objective(self) -> Callable[..., Objective[Any]]:
        from dragoman.tasks.translation.objective import TranslationObjective

        return TranslationObjective

    def config_for(self, request: TrainingRequest) -> Config:
        return config_for(request)

    def opener(self, files: Sequence[str], reading: TrainingRequest) -> tuple[Opener, Languages]:
        if (reading.text_column, reading.label_column, reading.label_separator) != (None, None, ""):
            raise ConfigError(
                "--text-column, --label-column and --label-separator are for --task classification"
            )
        named = zip(reading.languages, (files[0], files[-1]), strict=True)
        src, tgt = (lang or (_language_in(file) if len(files) == 2 else None) for lang, file in named)
        if not (src and tgt) and (files[0].startswith(PHRASEBOOK) or format_suffix(files[0]) == ".tmx"):
            raise ConfigError(f"{files[0]}: give its languages, as in --src-lang en --tgt-lang de")

        def open_(some: Sequence[str]) -> Corpus:
            columns = by_name(some[0], reading.columns) if reading.columns else DEFAULT_COLUMNS
            return open_corpus(some, src_lang=src or "src", tgt_lang=tgt or "tgt", columns=columns)

        return open_, (src, tgt)

    def directions(self, run: Run, request: EvaluationRequest) -> list[Run]:
        config = translation_config(run)
        chosen = config.directions if request.to is None else [config.direction(request.to)]
        return [replace(run, config=config.towards(direction)) for direction in chosen]

    def tests(self, run: Run, request: EvaluationRequest) -> dict[str, TestSet]:
        split = request.split
        if is_other_text(request):
            config = translation_config(run)
            towards = config.towards(config.direction(request.to))
            (src_lang, tgt_lang), src, ref = towards.languages, str(request.src), str(request.ref)
            pairs = read_pairs(open_corpus([src, ref], src_lang=src_lang, tgt_lang=tgt_lang))
            return {towards.labelled(Path(src).name): TestSet(towards.languages, pairs)}
        run.check_corpora()
        configs = [translation_config(one) for one in self.directions(run, request)]
        if split is None and not any(config.data.test for config in configs):
            request.say("the run names no test set, so its validation pairs are translated")
            split = "valid"
        tests = {
            config.labelled(name): TestSet(config.languages, read_pairs(corpus))
            for config in configs
            for name, corpus in split_of(config, split or "test")
        }
        if not tests:
            raise ConfigError(
                f"{run.config_path} names no test set; say --split valid, or give --src and --ref"
            )
        return tests

    def evaluate(
        self, run: Run, tests: Mapping[str, TestSet], request: EvaluationRequest
    ) -> Iterator[TranslationScores | Robustness]:
        say = request.say
        sentence_scores = read_given_scores(
            request.scores, {name: len(test.pairs) for name, test in tests.items()}
        )
        whole = load_translator(run, request)
        means: dict[str, Any] = {}
        if request.ensemble:
            means["ensemble"] = [str(path) for path in request.ensemble]
        by_test: dict[str, float] = {}
        for name, (direction, pairs) in tests.items():
            translator = whole.towards("-".join(direction))
            evaluation = evaluate(translator, name, pairs, settings=request.search)
            say(
                f"{name}: {counted(len(pairs), 'sentence')} in {evaluation.seconds:.1f} s, "
                f"{evaluation.sentences_per_second:.1f} sentences/s"
            )
            by_test[name] = evaluation.scores[0].value
            sources = [pair.src for pair in pairs]
            evaluation = with_given_scores(run, sources, evaluation, sentence_scores[name], say)
            yield replace(evaluation, other_settings={**evaluation.other_settings, **means})
            if request.robustness:
                card = robustness(translator, name, pairs, settings=request.search)
                yield replace(card, other_settings={**card.other_settings, **means})
        if len({direction for direction, _ in tests.values()}) > 1:
            worst = min(by_test, key=lambda name: by_test[name])
            mean = fmean(by_test.values())
            say(f"mean BLEU of {len(by_test)}: {mean:.1f}; worst: {worst}, {by_test[worst]:.1f}")

    def score_validation(self, run: Run, say: Say) -> Iterator[TranslationScores]:
        best = [record for record in run.history() if record.get("best")]
        bleu = best[-1]["bleu"] if best else 100.0
        if bleu < LOW_BLEU:
            worth = "drafts" if bleu < LOW_BLEU / 2 else "more than the gist"
            say(
                f"BLEU {bleu:.1f}: too little text for {worth}; add public text (dragoman data list), or "
                "start from a model of more (--from RUN): docs/quality.md"
            )
        yield from ()

    def report(self, run: Run, request: EvaluationRequest, figures: Path, reference: Curves | None) -> Page:
        return translation_page(Translations(run, request), figures=figures, reference=reference)

    def compare(self, runs: Mapping[str, Run], request: EvaluationRequest) -> list[TranslatorComparison]:
        return compare_translators(runs, request)

    def demo_settings(self, src: str | None, tgt: str | None) -> dict[str, Any]:
        src, tgt = src or "en", tgt or "de"
        for option, lang in (("--src", src), ("--tgt", tgt)):
            if lang not in LANGUAGES:
                raise ConfigError(f"{option} {lang}: the phrasebook has {', '.join(LANGUAGES)}")
        if src == tgt:
            raise ConfigError(f"--src {src} --tgt {tgt}: choose two different languages")
        settings = read_settings(recipes_folder() / RECIPE / "recipe.toml")
        return settings | {
            "name": "demo" if (src, tgt) == ("en", "de") else f"demo-{src}-{tgt}",
            "data": settings["data"] | {"src_lang": src, "tgt_lang": tgt},
        }

    def demo_results(self, run: Run, say: Say) -> tuple[list[DemoTable], str, Sequence[str]]:
        src, tgt = translation_config(run).languages
        test = read_pairs(open_corpus(["phrasebook:test"], src_lang=src, tgt_lang=tgt))
        whole = evaluate(Translator.load(run.path), "phrasebook", test)
        unseen_sources = {phrase._asdict()[src] for phrase in unseen_phrases()}
        unseen = [i for i, pair in enumerate(test) if pair.src in unseen_sources]
        seen = [i for i, pair in enumerate(test) if pair.src not in unseen_sources]
        parts = {"word and construction seen together": seen, "never seen together": unseen}
        evaluations = [whole, *(whole.part(n, i, tgt_lang=tgt) for n, i in parts.items() if i)]
        keep_scores(run, [evaluation.record() for evaluation in evaluations])
        say(f"{len(test):,} sentences in {whole.seconds:.1f} s, {whole.sentences_per_second:.0f} sentences/s")

        shown = [*unseen[: N_SHOWN // 2], *seen][:N_SHOWN]
        examples = [
            (test[i].src, (translation, "green" if translation == test[i].tgt else "yellow"), test[i].tgt)
            for i in shown
            for translation in [whole.hypotheses[i]]
        ]
        rows = []
        for evaluation in evaluations:
            values = {score.name: score.value for score in evaluation.scores}
            n = len(evaluation.hypotheses)
            n_right = sum(map(str.__eq__, evaluation.hypotheses, evaluation.references))
            name = "all" if evaluation is whole else evaluation.name
            figures = f"{values['BLEU']:.1f}", f"{values['chrF2']:.1f}", f"{100 * n_right / n:.0f} %"
            rows.append((name, f"{n:,}", *figures))
        tables = [
            DemoTable("Held-out sentences", ("source", "translation", "reference"), examples),
            DemoTable("Scores", ("test sentences", ">number", ">BLEU", ">chrF2", ">exactly right"), rows),
        ]
        return tables, test[0].src, ("demo --src de --tgt en", "train --src your.en --tgt your.de")


def _language_in(file: str) -> str | None:
    """Return the language that a file's name ends in, if it does."""
    try:
        return guess_language(file, option="--src-lang")
    except ConfigError:
        return None
