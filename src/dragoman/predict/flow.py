"""A translation from its texts to its results, as plain code that yields whatever takes time to compute.

A flow is a generator. It yields a `SearchStep`, or a `ComputeStep`, and receives the results from its driver,
which computes them here and now (`threads.finish`), or among those of others (`serving.batching.Client`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

from dragoman.config import SearchConfig, TranslationConfig
from dragoman.errors import ConfigError, DataError, check_texts
from dragoman.notebook import Shown
from dragoman.predict.alignment import align, joined_links
from dragoman.predict.engine import SearchInput
from dragoman.predict.glossary import Glossary
from dragoman.predict.model import TranslationModel
from dragoman.predict.protection import Protection, Skeleton
from dragoman.predict.results import Alternative, Link, Outcome, Translation
from dragoman.predict.splitting import joined_parts, split_to_fit
from dragoman.text.normalisation import without_controls

Result = TypeVar("Result")

CHARACTERS_A_TOKEN = 4
"""About; what a text costs, before it is cut into tokens."""


@dataclass(frozen=True, kw_only=True)
class TranslationRequest:
    """How to search, and what the translations must keep. States the rules that hold for every caller."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of [search]; one that is None is the run's own."""
    n_best: int = 1
    """Translations wanted of each text."""
    glossary: Glossary | None = None
    """Phrases that the translations of texts with certain terms hold."""
    protection: Protection | None = None
    """What stands in a translation as in its source."""

    def search(self, defaults: SearchConfig) -> dict[str, Any]:
        """Return the settings that differ from `defaults`, the [search] settings of a run.

        - More translations widen a beam whose size is not given.
        - Protection asks for the whole beam: one candidate may keep what the first one loses.
        """
        overrides = {name: value for name, value in self.settings.items() if value is not None}
        beam_size, n_best = overrides.get("beam_size", defaults.beam_size), self.n_best
        if "beam_size" not in overrides and overrides.get("method", defaults.method) == "beam":
            beam_size = max(defaults.beam_size, n_best)
        if self.protection is not None:
            n_best = max(n_best, beam_size)
        return {**overrides, "beam_size": beam_size, "n_best": n_best}


class SearchStep(NamedTuple):
    """Sentences to translate. Gives the hypotheses of each, best first."""

    model: TranslationModel
    sentences: Sequence[SearchInput]
    settings: SearchConfig
    n_done: int | None = None
    """Texts that need no search, or were finished before; None: these count for no progress."""


class ComputeStep(NamedTuple):
    """Anything else that takes time. Gives what `work` returns of `items`: a result for each."""

    work: Callable[[Sequence[Any]], Sequence[Any]]
    items: Sequence[Any]
    costs: Sequence[int]
    """Of each item: its tokens, or a similar measure."""


Flow: TypeAlias = Generator[SearchStep | ComputeStep, Any, Result]


@dataclass(frozen=True)
class Pivot:
    """Two models, one after the other, for a pair of languages that neither has.

    Each is towards one direction, the second from the language that the first writes.
    """

    first: TranslationModel
    second: TranslationModel

    @cached_property
    def config(self) -> TranslationConfig:
        """Return that of the second, from the source of the first."""
        src, tgt = self.first.config.languages[0], self.second.config.languages[1]
        languages = {"src_lang": src, "tgt_lang": tgt, "directions": (f"{src}-{tgt}",)}
        data = self.second.config.data.model_copy(update=languages)
        return self.second.config.model_copy(update={"data": data})


Source: TypeAlias = TranslationModel | Pivot
"""What texts are translated by."""


def translated(
    model: Source,
    texts: Sequence[str],
    request: TranslationRequest,
    *,
    prefixes: Sequence[str] | None = None,
    required: Sequence[Sequence[str]] | None = None,
    first_number: int = 1,
) -> Flow[list[Translation]]:
    """Return one translation per text, in order, as `request` has them; the rest is that of `searched`.

    Each span of a text that is protected is in its translation, exactly as often, and unchanged; spans that
    had to be put back are in the order of the source. Paired tags stay paired and nested. Of several
    alternatives the first is taken that holds all spans. A text stays as it is if the model cannot help
    writing one of its spans once more, as a "2" for "two" beside another "2". `Translation.parts` of a text
    too long for the model are those of what was left of it when spans had been taken out.
    """
    check_texts(texts, what="sentence", first_number=first_number)
    search = model.config.search.changed(request.search(model.config.search), where="translate")
    protection, results = request.protection or Protection(()), dict[int, Translation]()
    spans = [protection.spans(text) for text in texts]
    # First without tags only: a model copies most other spans. Then without any span.
    attempts: tuple[tuple[Outcome, bool], ...] = (("copied", True), ("put back", False))
    for outcome, only_tags in attempts:
        if not (rest := [i for i in range(len(texts)) if i not in results]):
            break
        skeletons = [Skeleton(texts[i], spans[i], protection, only_tags=only_tags) for i in rest]
        read = [skeleton.text for skeleton in skeletons]
        phrases = required and [required[i] for i in rest]
        if request.glossary is not None:
            of_terms = map(request.glossary.required, read)
            phrases = [[*a, *b] for a, b in zip(phrases or [()] * len(read), of_terms, strict=True)]
        translations = yield from searched(
            model, read, search, prefixes=prefixes and [prefixes[i] for i in rest], required=phrases,
            first_number=first_number,
        )  # fmt: skip
        whole = [*map(Skeleton.only_whole, skeletons, translations)]
        taken = [w for w, skeleton in zip(whole, skeletons, strict=True) if w and skeleton.taken]
        links = iter((yield from aligned(model, taken)) if taken else ())
        for i, skeleton, candidate in zip(rest, skeletons, whole, strict=True):
            kept = candidate
            if candidate is not None and skeleton.taken:
                kept = skeleton.restored(candidate, next(links))
            if kept is not None:
                results[i] = kept._replace(outcome=outcome if spans[i] else "")
    unchanged = (Translation(text, (Alternative(text, 0.0),), outcome="untranslated") for text in texts)
    return [results.get(i, translation) for i, translation in enumerate(unchanged)]


def searched(
    model: Source,
    texts: Sequence[str],
    search: SearchConfig,
    *,
    prefixes: Sequence[str] | None = None,
    required: Sequence[Sequence[str]] | None = None,
    first_number: int = 1,
    is_counted: bool = True,
) -> Flow[list[Translation]]:
    """Return the translation of each text that a search with these settings finds.

    Parameters and errors are those of `Translator.translate`. Unless `is_counted`, nobody is told of the
    progress. The first model of a pivot searches as its run says; all else is for the second.
    """
    if isinstance(model, Pivot):
        between = yield from searched(
            model.first, texts, model.first.config.search, first_number=first_number, is_counted=False
        )
        translations = yield from searched(
            model.second, [translation.text for translation in between], search, prefixes=prefixes,
            required=required, first_number=first_number, is_counted=is_counted,
        )  # fmt: skip
        return [
            translation._replace(source=text, through=translation.source, parts=())
            for text, translation in zip(texts, translations, strict=True)
        ]
    if required is not None and any(required):
        if search.method != "beam":
            raise ConfigError('required phrases need method = "beam"; with "sampling" leave them away')
        if search.diversity_groups > 1:
            raise ConfigError("required phrases need one beam; set diversity_groups = 1")
    # A text without a word has nothing to be searched for: until then each is its own translation.
    recase = search.recase
    sentences = model.inputs(texts, prefixes, required, first_number=first_number, recase=recase)
    translations = Shown(
        Translation(text, (Alternative(without_controls(text) if text.strip() else "", 0.0),), (), ((),))
        for text in texts
    )
    # What is too long for the model is cut into parts, which are translated as texts of their own.
    fit = min(model.max_positions, model.config.data.max_length)  # longer ones were never seen in training
    split: dict[int, list[str]] = {}
    for i, sentence in enumerate(sentences):
        if (n_tokens := len(sentence.source)) <= model.max_positions:
            continue
        if sentence.required:
            raise DataError(
                f"sentence {sentence.number}: has {n_tokens} tokens and the model accepts "
                f"{model.max_positions}: it comes in parts, for which no phrases can be required; split it "
                "into sentences"
            )
        try:
            split[i] = split_to_fit(texts[i], partial(model.n_tokens, recase=recase), fit)
        except DataError as error:
            raise DataError(f"sentence {sentence.number}: {error}") from error
    # All others are searched for at once, for their driver to batch.
    filled = [i for i, sentence in enumerate(sentences) if len(sentence.source) > 1 and i not in split]
    n_done = len(texts) - len(filled) - len(split) if is_counted else None
    results = dict(
        zip(filled, (yield SearchStep(model, [sentences[i] for i in filled], search, n_done)), strict=True)
    )
    # What lacks a slot in its best translation is searched for once more, with the slot as a phrase.
    lacking = {
        i: sentences[i]._replace(required=[*sentences[i].required, *missing])
        for i, hypotheses in results.items()
        if (missing := model.missing_slots(sentences[i], hypotheses[0].ids))
    }
    is_one_beam = search.method == "beam" and search.diversity_groups == 1
    if lacking and is_one_beam:
        results |= zip(lacking, (yield SearchStep(model, list(lacking.values()), search)), strict=True)
    for i, hypotheses in results.items():
        translations[i] = model.read(texts[i], sentences[i], hypotheses)
    # A prefix is for the first part; each has a number that no text has, for what it draws at random.
    if split:
        begun = [
            prefixes[i] if prefixes and not k else "" for i, parts in split.items() for k in range(len(parts))
        ]
        every = yield from searched(
            model, [*chain.from_iterable(split.values())], search, prefixes=begun,
            first_number=first_number + len(texts), is_counted=False,
        )  # fmt: skip
        rest = iter(every)
        for i, parts in split.items():
            of_text = tuple(islice(rest, len(parts)))
            translations[i] = joined_parts(texts[i], of_text, model.config.languages)
    return translations


def aligned(model: Source, translations: Sequence[Translation]) -> Flow[list[list[Link]]]:
    """Return the links of each translation with its source, as `alignment.align` has them.

    Of one in parts, part by part. Of one through a pivot language, those of both steps, joined.
    """
    if isinstance(model, Pivot):
        before = yield from _links(model.first, [(each.source, each.through) for each in translations])
        after = yield from _links(model.second, [(each.through, each.text) for each in translations])
        return [*map(joined_links, before, after)]
    placed = [_placed_parts(translation) for translation in translations]
    pairs = [(part.source, part.text) for parts in placed for part, _, _ in parts]
    links = iter((yield from _links(model, pairs)))
    return [
        [Link(a + s, b + s, c + t, d + t, w) for _, s, t in parts for a, b, c, d, w in next(links)]
        for parts in placed
    ]


def _placed_parts(translation: Translation) -> list[tuple[Translation, int, int]]:
    """Return the parts, and where each begins in the source and in the text of the whole.

    Of one whose source is not made up of those of its parts it is the whole alone.
    """
    if "".join(part.source for part in translation.parts) != translation.source:
        return [(translation, 0, 0)]
    placed, src_start, tgt_start = [], 0, 0
    for part in translation.parts:
        tgt_start = translation.text.index(part.text, tgt_start)
        placed.append((part, src_start, tgt_start))
        src_start += len(part.source)
        tgt_start += len(part.text)
    return placed


def _links(model: TranslationModel, pairs: Sequence[tuple[str, str]]) -> Flow[list[list[Link]]]:
    def work(some: Sequence[tuple[str, str]]) -> list[list[Link]]:
        return align(model, [source for source, _ in some], [target for _, target in some])

    return (yield ComputeStep(work, pairs, [len(target) // CHARACTERS_A_TOKEN for _, target in pairs]))
