"""The report page of a translator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.config import TranslationConfig
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.metrics.score import Score, interval_text, value_text
from dragoman.predict.alignment import align_words
from dragoman.predict.attention import attention_maps
from dragoman.report.attention import plot_alignment, plot_layers
from dragoman.report.curves import Curves
from dragoman.report.page import (
    Example,
    Facts,
    Figure,
    Group,
    Notice,
    Page,
    Paragraph,
    Part,
    Section,
    Span,
    Table,
)
from dragoman.report.picture import BLUE, GREEN, GREY, pale_grid, picture
from dragoman.report.run import card_section, curves_section, footer, summary_facts
from dragoman.tasks.translation import analysis
from dragoman.tasks.translation.analysis import (
    MAX_LENGTH_EXTRA,
    MAX_LENGTH_RATIO,
    LengthBucket,
    extremes,
    faults,
    word_diff,
)
from dragoman.tasks.translation.kept import TranslatedSet, Translations

MAX_VALID = 2000
"""Validation sentences that are translated, at most: the first ones."""
MAX_ATTENTION_TOKENS = 24
"""A longer sentence makes no picture that could be read."""
N_FAULTY = 3
"""Sentences of each kind of fault that are shown."""
N_NUMBERS = 3
"""Sentences with lost or invented numbers that are shown."""
FEW = 20
"""Sentences below which a bucket's score says little; its bar is hatched."""


def gather(
    translations: Translations, *, split: str | None
) -> tuple[list[TranslatedSet], TranslatedSet | None, list[str]]:
    """Return the sets to report on, the validation pairs, and what could not be had, in words.

    The split that is asked for must be there. Without one it is the test sets, or else the validation pairs,
    and a report is made of what there is. ConfigError, DataError, RunError.
    """
    problems: list[str] = []
    run = translations.run
    if not run.weights_path.exists():
        if split is not None:
            raise RunError(f"{run.path}: holds no model.safetensors yet; train it until its first validation")
        problems.append("The run has no weights yet, so that nothing could be translated.")
        return [], None, problems
    tests: list[TranslatedSet] = []
    valid: list[TranslatedSet] = []
    if split != "valid":
        try:
            tests = translations.sets("test")
        except DataError as error:
            if split is not None:
                raise
            problems.append(f"The test sets could not be scored: {error}.")
        if not tests and split == "test":
            raise ConfigError(f"{run.config_path} names no test set; say --split valid")
        if not tests and not problems:
            problems.append("The run names no test set: its validation pairs stand in for one.")
    try:
        valid = translations.sets("valid", max_sentences=MAX_VALID)
    except DataError as error:
        if split == "valid":
            raise
        problems.append(f"The validation pairs could not be translated: {error}.")
    return tests or valid, valid[0] if valid else None, problems


def translation_page(translations: Translations, *, figures: Path, reference: Curves | None) -> Page:
    """Return the page; its figures are written into the folder `figures`. Errors: those of `Task.report`."""
    run, config, request = translations.run, translations.config, translations.request
    tests, valid, problems = gather(translations, split=request.split)
    for problem in problems:
        request.say(problem)
    facts = list(summary_facts(run))
    parts: list[Section] = []
    if tests:
        main = tests[0]
        scores = " · ".join(f"{score.name} {score.value:.1f}" for score in main.evaluation.main_scores)
        facts.insert(1, (main.name, f"{scores} ({len(main.sources):,} sentences)"))
        parts = [_scores([*tests, *([valid] if valid and valid not in tests else [])])]
    summary = Section("Summary", [Facts(facts), *map(Notice, problems)])
    sections = [summary, *parts, curves_section(run, figures, reference)]
    if tests:
        request.say(f"{run.path}: analysing {main.name}")
        sections += [
            Section(
                "Where it is good",
                [
                    Paragraph(f"Computed on {main.provenance}."),
                    _by_length(config, main, figures),
                    _numbers(config, main),
                ],
            ),
            _sentences(config, main, request.n_examples),
            _degenerate(config, main),
            _robustness(translations, main),
        ]
        request.say(f"{run.path}: drawing attention")
        sections.append(_attention(translations, main, figures))
    sections.append(card_section(run))
    title = f"{config.name} · {config.subject}"
    return Page(title, f"A report on the translator in {run.path.name}", sections, footer(run))


def _scores(sets: Sequence[TranslatedSet]) -> Section:
    """Every score with its interval and its signature."""
    parts: list[Part] = []
    for kept in sets:
        evaluation, record = kept.evaluation, kept.record
        rows = [
            (score.name, f"{score.value:.1f}", interval_text(score.interval, missing="–"), score.signature)
            for score in evaluation.scores
        ]
        caption = (
            f"{kept.provenance}; beam {evaluation.beam_size}, length penalty {evaluation.length_penalty:g}, "
            f"{evaluation.seconds:.0f} s; translated {record.date} by commit {record.commit or 'unknown'}"
        )
        parts.append(Table(caption, ("", "score", "95 % interval", "signature"), rows, n_figures=2))
    parts.append(
        Paragraph(
            "Scores are sacreBLEU's, of detokenised text, 0 to 100; TER counts edits per 100 words, and less "
            "is better. Intervals are those of bootstrap resampling of the sentences (Koehn 2004): they do "
            "not say how far another seed of the training would come out. Scores whose signature has "
            "numbers:given are means of numbers that another tool gave the sentences."
        )
    )
    return Section("Scores", parts)


def _by_length(config: TranslationConfig, main: TranslatedSet, figures: Path) -> Group:
    data, evaluation = config.data, main.evaluation
    buckets = analysis.by_length(
        main.sources,
        evaluation.hypotheses,
        evaluation.references,
        src_lang=data.src_lang,
        tgt_lang=data.tgt_lang,
    )
    path = figures / "length.svg"
    plot_scores_by_length(buckets, path)
    rows = [
        (
            interval_name(bucket.shortest, bucket.longest),
            str(len(bucket.indices)),
            *(value_text(score.value, score.interval) for score in (bucket.bleu, bucket.chrf)),
        )
        for bucket in buckets
    ]
    signature = buckets[0].bleu.signature
    return Group(
        "By length of the source",
        [
            Figure(
                path,
                "Bars of BLEU and chrF2 for each length of the source: "
                + "; ".join(f"{row[0]} words, BLEU {row[2]}, chrF2 {row[3]}" for row in rows),
                f"Bars are scores, lines their 95 % intervals. Hatched: fewer than {FEW} sentences.",
            ),
            Table(
                f"{main.provenance}; BLEU {signature}",
                ("words in the source", "sentences", "BLEU (95 %)", "chrF2 (95 %)"),
                rows,
            ),
        ],
    )


def _numbers(config: TranslationConfig, main: TranslatedSet) -> Group:
    evaluation = main.evaluation
    score, wrong = analysis.number_recall(evaluation.hypotheses, evaluation.references)
    shares = (f"{share:.1f}" for share in (score.precision, score.recall))
    rows = [("digits", str(score.n_reference), str(score.n_hypothesis), *shares)]
    heading = ("numbers", "in references", "in translations", "precision", "recall")
    parts: list[Part] = [
        Paragraph(
            "Numbers written in digits, as they are written: 1,000 is not 1.000, and three is not 3."
            if score.n_reference or score.n_hypothesis
            else "Neither references nor translations hold a number in digits."
        )
    ]
    if score.n_reference or score.n_hypothesis:
        parts.append(Table(main.provenance, heading, rows))
    parts += (
        _example(config, main, i, title=f"Sentence {i + 1}: not the same numbers") for i in wrong[:N_NUMBERS]
    )
    return Group("Numbers", parts)


def _robustness(translations: Translations, main: TranslatedSet) -> Section:
    altered = translations.altered(main)
    heading, cells = list(altered[0].notebook_row()), [row.cells(nothing="–") for row in altered]
    return Section(
        "Text that is written otherwise",
        [
            Paragraph(
                "The same sentences, altered. References are altered alike, but for typing mistakes. Copied: "
                "the translation is its source. Repeated: words stand in it again and again. Kept: numbers, "
                "addresses, placeholders, tags and emoji of source and reference that are in the translation."
            ),
            Table(f"{altered[0].n_sentences:,} sentences of {main.provenance}", heading, cells),
        ],
    )


def _sentences(config: TranslationConfig, main: TranslatedSet, n_sentences: int) -> Section:
    """Return the best, those in the middle, and the worst."""
    parts: list[Part] = [
        Paragraph(
            (
                Span("same", f"By chrF2 of the sentence, of {main.provenance}. Underlined: "),
                Span("missing", "only in the reference"),
                Span("same", ", "),
                Span("extra", "only in the translation"),
                Span("same", "."),
            )
        )
    ]
    for name, indices in zip(("Best", "Median", "Worst"), extremes(main.qualities, n_sentences), strict=True):
        examples = [_example(config, main, i, title=_title(main, i)) for i in indices]
        parts.append(Group(name, examples or [Paragraph("None: there are too few sentences.")]))
    return Section("Sentences", parts)


def _title(main: TranslatedSet, i: int) -> str:
    return f"Sentence {i + 1} · chrF2 {main.qualities[i]:.1f}"


def _example(config: TranslationConfig, main: TranslatedSet, i: int, *, title: str) -> Example:
    """Return a sentence with its reference and its translation, their differences marked."""
    data, evaluation = config.data, main.evaluation
    differences = word_diff(evaluation.references[i], evaluation.hypotheses[i])
    reference = [piece for piece in differences if piece.kind != "extra"]
    hypothesis = [piece for piece in differences if piece.kind != "missing"]
    return Example(
        title,
        [
            ("source", main.sources[i], data.src_lang),
            ("reference", reference, data.tgt_lang),
            ("translation", hypothesis or "(empty)", data.tgt_lang),
        ],
    )


def _degenerate(config: TranslationConfig, main: TranslatedSet) -> Section:
    """Section on degenerate translations: counts by kind, and examples."""
    evaluation = main.evaluation
    faulty = faults(main.sources, evaluation.hypotheses, evaluation.references, tgt_lang=config.data.tgt_lang)
    n = len(main.sources)
    rows = [(kind, str(len(indices)), f"{100 * len(indices) / n:.1f} %") for kind, indices in faulty.items()]
    parts: list[Part] = [
        Paragraph(
            "Copied: all but the same as the source. Repeated: a word four times on end, or a phrase three "
            f"times. Too long: more than {MAX_LENGTH_RATIO} times the words of the reference and "
            f"{MAX_LENGTH_EXTRA} more. A translation whose reference does the same is not counted."
        ),
        Table(main.provenance, ("kind", "sentences", "share"), rows),
    ]
    for kind, indices in faulty.items():
        worst = sorted(indices, key=lambda i: (main.qualities[i], i))[:N_FAULTY]
        examples = [_example(config, main, i, title=_title(main, i)) for i in worst]
        if examples:
            parts.append(Group(kind.capitalize(), examples))
    return Section("Degenerate translations", parts)


def _attention(translations: Translations, main: TranslatedSet, figures: Path) -> Section:
    """Which words stand for which, of three sentences, and all layers' attention in one of them."""
    chosen = _readable(translations, main)
    if not chosen:
        none = Paragraph(f"No sentence has at most {MAX_ATTENTION_TOKENS} tokens on both sides.")
        return Section("Attention", [none])
    parts: list[Part] = [
        Paragraph(
            "Rows look at columns: dark is much attention, and a row adds up to 1. Frames are the links "
            f"between words that follow from it. Sentences of {main.provenance}."
        )
    ]
    for number, (what, i) in enumerate(chosen.items(), start=1):
        source, hypothesis = main.sources[i], main.evaluation.hypotheses[i]
        path = figures / f"alignment-{number}.svg"
        plot_alignment(align_words(translations.translator, source, hypothesis), path)
        alt = f"Heat map of words with links framed. Source: {source} Translation: {hypothesis}"
        figure = Figure(
            path, alt, "Cross-attention between words, mean of layers and heads, as an alignment."
        )
        parts.append(Group(f"Sentence {i + 1}, {what}", [figure]))
    i = chosen.get("middling", next(iter(chosen.values())))
    maps = attention_maps(translations.translator, main.sources[i], main.evaluation.hypotheses[i])
    drawn = plot_layers(maps, figures)
    layers = [
        Figure(path, f"Heat maps, one for each head and their mean: {title}", f"{title}; sentence {i + 1}.")
        for title, path in drawn.items()
    ]
    about = Paragraph("Each head's softmax(QKᵀ/√d) (Vaswani et al. 2017, section 3.2), in fp32.")
    parts.append(Group(f"Every layer and head, sentence {i + 1}", [about, *layers], folded=True))
    return Section("Attention", parts)


def _readable(translations: Translations, main: TranslatedSet) -> dict[str, int]:
    """Return a good, a middling and a bad sentence among those short enough for a picture, by these words."""
    tokenizers = translations.translator.tokenizers
    hypotheses = main.evaluation.hypotheses
    lengths = zip(
        tokenizers.src.encode_batch(main.sources), tokenizers.tgt.encode_batch(hypotheses), strict=True
    )
    most = MAX_ATTENTION_TOKENS - 1  # and the end token
    short = [i for i, (src, tgt) in enumerate(lengths) if 0 < len(src) <= most and 0 < len(tgt) <= most]
    chosen = extremes([main.qualities[i] for i in short], 1)
    named = zip(("good", "middling", "bad"), chosen, strict=True)
    return {what: short[indices[0]] for what, indices in named if indices}


def plot_scores_by_length(buckets: Sequence[LengthBucket], path: Path) -> None:
    """Draw BLEU and chrF2 of each bucket with their intervals, and how many sentences are in it.

    Errors: those of `picture`.
    """
    names = [interval_name(bucket.shortest, bucket.longest) for bucket in buckets]
    few = [len(bucket.indices) < FEW for bucket in buckets]
    with picture(path, size=(9.0, 3.2), purpose="drawing scores") as figure:
        bleu_axes, chrf_axes = figure.subplots(1, 2, sharex=True)
        _score_bars(bleu_axes, [b.bleu for b in buckets], few, color=BLUE, title="BLEU")
        _score_bars(chrf_axes, [b.chrf for b in buckets], few, color=GREEN, title="chrF2")
        for axes in (bleu_axes, chrf_axes):
            labels = [f"{name}\nn = {len(b.indices)}" for name, b in zip(names, buckets, strict=True)]
            axes.set_xticks(range(len(buckets)), labels)
            axes.set_xlabel("words in the source, and sentences")


def _score_bars(axes: Any, scores: Sequence[Score], few: Sequence[bool], *, color: str, title: str) -> None:
    values = [score.value for score in scores]
    lows, highs = zip(*(score.interval or (score.value, score.value) for score in scores), strict=True)
    errors = [
        [max(0.0, value - low) for value, low in zip(values, lows, strict=True)],
        [max(0.0, high - value) for value, high in zip(values, highs, strict=True)],
    ]
    bars = axes.bar(range(len(values)), values, color=color, width=0.66, edgecolor="white")
    for bar, hatched in zip(bars, few, strict=True):
        if hatched:
            bar.set(hatch="///", facecolor="white", edgecolor=color)
    axes.errorbar(
        range(len(values)), values, yerr=errors, fmt="none", ecolor="black", elinewidth=1.1, capsize=3
    )
    for i, (value, high) in enumerate(zip(values, highs, strict=True)):
        axes.annotate(
            f"{value:.1f}", (i, max(value, high)), xytext=(0, 3), textcoords="offset points", ha="center"
        )
    axes.set_title(title)
    axes.set_ylim(0, 1.15 * max(*highs, *values, 5.0))
    _finish(axes)


def interval_name(least: int, most: int | None) -> str:
    """Return a bucket in words: 0, 1–4, or 1000+."""
    if most is None:
        return f"{least}+"
    return str(least) if least == most else f"{least}–{most}"


def _finish(axes: Any) -> None:
    pale_grid(axes)
    axes.tick_params(colors=GREY, length=3)
