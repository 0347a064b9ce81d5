"""Answer translation requests: as one response, or as a stream of events."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import BaseModel

from dragoman.documents import Document
from dragoman.errors import DataError
from dragoman.predict.alignment import word_probabilities
from dragoman.predict.engine import SearchInput
from dragoman.predict.flow import CHARACTERS_A_TOKEN, Flow, Pivot, aligned, computed, translated
from dragoman.predict.glossary import Glossary
from dragoman.predict.inflection import Inflectable
from dragoman.predict.protection import Protection
from dragoman.predict.request import TranslationRequest
from dragoman.serving.errors import too_much
from dragoman.serving.models import ServedTranslator
from dragoman.serving.schemas import (
    AlternativeMessage,
    BeginEvent,
    DirectionMessage,
    LinkMessage,
    PartialEvent,
    SentenceEvent,
    SentenceMessage,
    SentencesMessage,
    SourceSentence,
    TranslatedSentence,
    TranslateRequest,
    TranslateResponse,
    TranslationMessage,
    WordMessage,
)
from dragoman.serving.settings import LimitsConfig
from dragoman.text.slots import PATTERNS

Tell: TypeAlias = Callable[[str, BaseModel], None]
"""Callback for stream events: name and data."""

BETWEEN_PARTIALS = 0.04
"""Minimum seconds between two partial results."""

SEARCH_SETTINGS = (
    "beam_size", "length_penalty", "no_repeat_ngram", "method", "temperature", "top_k", "top_p", "seed",
)  # fmt: skip


@dataclass(frozen=True)
class Text:
    """A text of a request, split into sentences."""

    document: Document
    source_starts: tuple[int, ...]

    @classmethod
    def read(cls, text: str, language: str, *, split: bool) -> Text:
        """Return `text`, split into sentences if `split`."""
        document = Document.read(text, language) if split else Document((text,), (1,), ("", ""))
        starts, position = [], 0
        for gap, sentence in zip(document.gaps, document.sentences, strict=False):
            starts.append(position + len(gap))
            position += len(gap) + len(sentence)
        return cls(document, tuple(starts))

    def written(
        self, sentences: Sequence[TranslatedSentence], languages: tuple[str, str]
    ) -> TranslationMessage:
        """Return the translation of the text from those of its sentences."""
        text = self.document.written([sentence.text for sentence in sentences], languages)
        placed, end = [], 0
        for sentence in sentences:
            start = text.index(sentence.text, end)
            end = start + len(sentence.text)
            placed.append(SentenceMessage(**dict(sentence), start=start, end=end))
        return TranslationMessage(text=text, sentences=placed)


class TranslationJob:
    """A validated translation request, with everything needed to answer it."""

    def __init__(self, served: ServedTranslator, request: TranslateRequest, limits: LimitsConfig) -> None:
        """Validate a request.

        Raises:
            DataError: its fields contradict each other, or entries of its glossary do.
            HTTPError: too many hypotheses, alternatives or terms (413).
        """
        texts = [request.text] if isinstance(request.text, str) else request.text
        if (request.prefix or request.required) and (request.split or len(texts) != 1):
            raise DataError("prefix and required are for one sentence: send one text, with split = false")
        if len(request.glossary) > limits.glossary_entries:
            raise too_much(
                "glossary entries", len(request.glossary), limits.glossary_entries, "glossary_entries"
            )
        self.served, self.request = served, request
        self._texts = [Text.read(text, served.languages[0], split=request.split) for text in texts]
        self._places = [(i, k) for i, text in enumerate(self._texts) for k in range(len(text.source_starts))]
        kinds = PATTERNS if request.protect is True else request.protect
        self._wanted = TranslationRequest(
            settings={name: getattr(request, name) for name in SEARCH_SETTINGS},
            n_best=request.n_best,
            glossary=Glossary.of(request.glossary, inflect=request.inflect) if request.glossary else None,
            protection=Protection(kinds) if kinds else None,
        )
        defaults = served.translator.config.search
        settings = self._wanted.search(defaults)
        for setting, what in (("beam_size", "hypotheses"), ("n_best", "alternatives")):
            if settings[setting] > max(limits.beam_size, defaults.beam_size):
                raise too_much(what, settings[setting], limits.beam_size, "beam_size")

    @property
    def n_sentences(self) -> int:
        return len(self._places)

    def answer(self) -> Flow[TranslateResponse]:
        """Return all translations."""
        return self._answer((yield from self._translated(0, len(self._places))))

    def stream(self, tell: Tell) -> Flow[None]:
        """Send the events begin, partial and sentence for each sentence, and done.

        Sentences are translated in order: the first one alone, so that its translation arrives soon, then
        more at a time.
        """
        texts = [
            SentencesMessage(sentences=[self._place(i, k) for k in range(len(text.source_starts))])
            for i, text in enumerate(self._texts)
        ]
        tell("begin", BeginEvent(**self._direction.model_dump(exclude_unset=True), translations=texts))
        sentences: list[TranslatedSentence] = []
        while len(sentences) < len(self._places):
            first = len(sentences)
            for sentence in (yield from self._translated(first, min(2 * first + 1, first + 32))):
                i, k = self._places[len(sentences)]
                sentences.append(sentence)
                tell("sentence", SentenceEvent(text=i, sentence=k, result=sentence))
        tell("done", self._answer(sentences))

    def teller(self, tell: Tell) -> Callable[[SearchInput, Sequence[int]], None] | None:
        """Return a callback for partial hypotheses, by sentence, whose numbers count from 1."""
        if self._wanted.protection is not None or isinstance(self.served.translator, Pivot):
            return None  # what is searched for is not what is answered
        last: dict[int, float] = {}
        written = self.served.translator.written

        def see(sentence: SearchInput, ids: Sequence[int]) -> None:
            now, number = time.monotonic(), sentence.number
            if ids and number <= len(self._places) and now - last.get(number, 0.0) >= BETWEEN_PARTIALS:
                last[number] = now
                i, k = self._places[number - 1]
                tell("partial", PartialEvent(text=i, sentence=k, partial=written(sentence, [ids])[0]))

        return see

    @property
    def _direction(self) -> DirectionMessage:
        source, target = self.served.languages
        names = {"model": self.served.info.name, "source": source, "target": target}
        return DirectionMessage(**names, **({"pivot": self.served.pivot} if self.served.pivot else {}))

    def _answer(self, sentences: Sequence[TranslatedSentence]) -> TranslateResponse:
        remaining = iter(sentences)
        translations = [
            text.written([next(remaining) for _ in text.source_starts], self.served.languages)
            for text in self._texts
        ]
        return TranslateResponse(**self._direction.model_dump(exclude_unset=True), translations=translations)

    def _place(self, i: int, k: int) -> SourceSentence:
        text = self._texts[i]
        start, source = text.source_starts[k], text.document.sentences[k]
        return SourceSentence(source_start=start, source_end=start + len(source), source=source)

    def _translated(self, first: int, end: int) -> Flow[list[TranslatedSentence]]:
        """Return the translations of the sentences `first` to `end` of all texts."""
        places = self._places[first:end]
        sources = [self._texts[i].document.sentences[k] for i, k in places]
        phrases = [*map(Inflectable if self.request.inflect else str, self.request.required)]
        model, links, words = self.served.translator, None, None
        translations = yield from translated(
            model, sources, self._wanted, prefixes=[self.request.prefix] if self.request.prefix else None,
            required=[phrases] * len(sources), first_number=first + 1,
        )  # fmt: skip
        if self.request.align:
            links = yield from aligned(model, translations)
        if self.request.confidence:
            texts = [translation.text for translation in translations]
            read = [translation.through or translation.source for translation in translations]
            writer = model.second if isinstance(model, Pivot) else model
            cost = sum(map(len, texts)) // CHARACTERS_A_TOKEN
            words = yield from computed(lambda: word_probabilities(writer, read, texts), cost)
        return [
            TranslatedSentence(
                **dict(self._place(i, k)),
                text=translation.text,
                score=finite(translation.score),
                alternatives=[
                    AlternativeMessage(text=a.text, score=finite(a.score))
                    for a in translation.alternatives[: self.request.n_best]
                ],
                links=None if links is None else [
                    LinkMessage(
                        source=(link.source_start, link.source_end),
                        target=(link.target_start, link.target_end),
                        weight=round(link.weight, 4),
                    )
                    for link in links[n]
                ],
                words=None if words is None else [
                    WordMessage(start=word.start, end=word.end, probability=round(word.probability, 4))
                    for word in words[n]
                ],
            )
            for n, ((i, k), translation) in enumerate(zip(places, translations, strict=True))
        ]  # fmt: skip


def finite(number: float) -> float | None:
    """Return a number for JSON: rounded; infinity becomes null."""
    return round(number, 4) if math.isfinite(number) else None
