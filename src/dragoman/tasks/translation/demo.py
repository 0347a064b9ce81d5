"""The demo of translation: settings for the embedded phrasebook, and what to show of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.config import read_settings
from dragoman.data.corpora import open_corpus
from dragoman.data.phrasebook import LANGUAGES, unseen_phrases
from dragoman.errors import ConfigError
from dragoman.evaluation.scores import keep_scores
from dragoman.evaluation.translation import evaluate, read_pairs
from dragoman.files import recipes_folder
from dragoman.predict.translator import Translator, translation_config
from dragoman.runs import Run
from dragoman.tasks.task import DemoTable, Say

RECIPE = "phrasebook-en-de"
"""What the demo trains, for whichever languages."""

N_SHOWN = 12
"""Translations in the table."""


def demo_settings(src: str, tgt: str) -> dict[str, Any]:
    """Return the demo's settings. ConfigError: the phrasebook does not have this pair of languages."""
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


def demo_results(run: Run, say: Say) -> tuple[list[DemoTable], str, Sequence[str]]:
    """Score held-out sentences, as `Task.demo_results` has it."""
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
        n, n_right = (
            len(evaluation.hypotheses),
            sum(map(str.__eq__, evaluation.hypotheses, evaluation.references)),
        )
        name = "all" if evaluation is whole else evaluation.name
        figures = f"{values['BLEU']:.1f}", f"{values['chrF2']:.1f}", f"{100 * n_right / n:.0f} %"
        rows.append((name, f"{n:,}", *figures))
    tables = [
        DemoTable("Held-out sentences", ("source", "translation", "reference"), examples),
        DemoTable("Scores", ("test sentences", ">number", ">BLEU", ">chrF2", ">exactly right"), rows),
    ]
    return tables, test[0].src, ("demo --src de --tgt en", "train --src your.en --tgt your.de")
