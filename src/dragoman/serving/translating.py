"""Answer translation requests: as one response, as a stream of events, or with a document."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Any, TypeAlias

from fastapi import Request

from dragoman.config import SearchConfig
from dragoman.documents import Document, DocumentFile
from dragoman.errors import DataError
from dragoman.predict.alignment import WordProbability, word_probabilities
from dragoman.predict.flow import (
    CHARACTERS_A_TOKEN,
    ComputeStep,
    Flow,
    Pivot,
    TranslationRequest,
    aligned,
    translated,
)
from dragoman.predict.glossary import Glossary
from dragoman.predict.inflection import Inflectable
from dragoman.predict.protection import Protection
from dragoman.predict.results import Link, Translation
from dragoman.serving import schemas
from dragoman.serving.batching import Client
from dragoman.serving.downloads import MAX_STEM, safe_name
from dragoman.serving.errors import too_much
from dragoman.serving.models import Models, ServedTranslator
from dragoman.serving.service import Service, Tell
from dragoman.serving.settings import LimitsConfig
from dragoman.text.languages import detect, known
from dragoman.text.slots import PATTERNS

Fields: TypeAlias = dict[str, Any]
"""Those of a message, which is made of all of them at once."""

AUTO = "auto"
"""Source language of a request whose language is to be detected."""


def translation(
    service: Service,
    request: Request,
    served: ServedTranslator,
    asked: schemas.TranslateRequest,
    client: Client,
    tell: Tell = lambda name, data: None,
) -> Flow[schemas.TranslateResponse]:
    """Return the answer to a request for translations.

    `tell` receives it in events, too: begin, sentence for each sentence, and done. Sentences of a stream are
    translated in order: the first one alone, so that its translation arrives soon, then more at a time.

    Raises:
        DataError: fields of the request contradict each other, or entries of its glossary do.
        HTTPError: too many sentences, hypotheses, alternatives or terms (413); the queue is full (429).
    """
    plan = _plan(served, asked, service.config.limits)
    languages, model = served.languages, served.translator
    documents = [
        Document.read(text, languages[0]) if asked.split else Document(text, ((0, len(text), 1),))
        for text in texts_of(asked)
    ]
    by_text: list[list[Fields]] = [
        [
            {"source_start": start, "source_end": end, "source": document.text[start:end]}
            for start, end, _ in document.places
        ]
        for document in documents
    ]
    sentences = [(i, k, fields) for i, of_text in enumerate(by_text) for k, fields in enumerate(of_text)]
    service.take_in(request, served.name, len(sentences))
    direction: Fields = {"model": served.name, "source": languages[0], "target": languages[1]}
    direction |= {"pivot": served.pivot} if served.pivot else {}
    tell("begin", direction | {"translations": [{"sentences": of_text} for of_text in by_text]})
    phrases = [*map(Inflectable if asked.inflect else str, asked.required)]
    end = 0
    while (first := end) < len(sentences):
        end = min(2 * first + 1, first + 32) if asked.stream else len(sentences)
        part = sentences[first:end]
        translations = yield from translated(
            model, [fields["source"] for _, _, fields in part], plan,
            prefixes=[asked.prefix] if asked.prefix else None, required=[phrases] * len(part),
            first_number=first + 1,
        )  # fmt: skip
        links: Sequence[Sequence[Link] | None] = [None] * len(part)
        words: Sequence[Sequence[WordProbability] | None] = [None] * len(part)
        if asked.align:
            links = yield from aligned(model, translations)
        if asked.confidence:
            outputs = [each.text for each in translations]
            inputs = [each.through or each.source for each in translations]
            writer = model.second if isinstance(model, Pivot) else model
            cost = sum(map(len, outputs)) // CHARACTERS_A_TOKEN
            job = [(writer, inputs, outputs)]
            (words,) = yield ComputeStep(lambda each: [word_probabilities(*x) for x in each], job, [cost])
        for (i, k, fields), each, of_links, of_words in zip(part, translations, links, words, strict=True):
            fields.update(_fields(asked.n_best, each, of_links, of_words))
            tell("sentence", {"text": i, "sentence": k, "result": fields})
    messages: Any = [_written(*each, languages) for each in zip(documents, by_text, strict=True)]
    tell("done", direction | {"translations": messages})
    return schemas.TranslateResponse(**direction, translations=messages)


def _written(document: Document, sentences: Sequence[Fields], languages: tuple[str, str]) -> Fields:
    """Return the fields of a `TranslationMessage`, from those of its sentences, which are placed in it."""
    text, end = document.written([sentence["text"] for sentence in sentences], languages), 0
    for sentence in sentences:
        start = text.index(sentence["text"], end)
        end = start + len(sentence["text"])
        sentence |= {"start": start, "end": end}
    return {"text": text, "sentences": sentences}


def texts_of(asked: schemas.TranslateRequest | schemas.ClassifyRequest) -> list[str]:
    """Return the texts of a request, one or several."""
    return [asked.text] if isinstance(asked.text, str) else asked.text


def _plan(
    served: ServedTranslator, asked: schemas.TranslateRequest, limits: LimitsConfig
) -> TranslationRequest:
    """Return how to translate. Errors: as `translation`."""
    if (asked.prefix or asked.required) and (asked.split or len(texts_of(asked)) != 1):
        raise DataError("prefix and required are for one sentence: send one text, with split = false")
    if len(asked.glossary) > limits.glossary_entries:
        raise too_much("glossary entries", len(asked.glossary), limits.glossary_entries, "glossary_entries")
    kinds = PATTERNS if asked.protect is True else asked.protect
    plan = TranslationRequest(
        settings=asked.model_dump(include=set(SearchConfig.model_fields) - {"n_best"}),
        n_best=asked.n_best,
        glossary=Glossary(asked.glossary, inflect=asked.inflect) if asked.glossary else None,
        protection=Protection(kinds) if kinds else None,
    )
    defaults = served.translator.config.search
    settings = plan.search(defaults)
    for setting, what in (("beam_size", "hypotheses"), ("n_best", "alternatives")):
        if settings[setting] > max(limits.beam_size, defaults.beam_size):
            raise too_much(what, settings[setting], limits.beam_size, "beam_size")
    return plan


def _fields(
    n_best: int, best: Translation, links: Sequence[Link] | None, words: Sequence[WordProbability] | None
) -> Fields:
    """Return the fields of a `SentenceMessage` but for its places."""
    fields: Fields = {"text": best.text, "score": finite(best.score), "links": None, "words": None}
    alternatives = best.alternatives[:n_best]
    fields["alternatives"] = [{"text": each.text, "score": finite(each.score)} for each in alternatives]
    if links is not None:
        fields["links"] = [
            {"source": link[:2], "target": link[2:4], "weight": round(link.weight, 4)} for link in links
        ]
    if words is not None:
        fields["words"] = [
            {"start": word.start, "end": word.end, "probability": round(word.probability, 4)}
            for word in words
        ]
    return fields


def chosen(
    models: Models,
    read: Callable[[Sequence[tuple[str, str]]], str],
    name: str | None,
    source: str | None,
    target: str | None,
) -> ServedTranslator:
    """Return the translator of this name from `source` into `target`; None = any.

    The source "auto" is detected among those of the models that may answer. `read` returns the text, given
    their directions. It is called only if there are several languages.

    DataError: there is no such model. Other errors: those of `read`.
    """
    if source == AUTO:
        answering = [model.languages for model in models.translators if name in (None, model.name)]
        into = target and known(target, (language for _, language in answering))
        directions = [pair for pair in dict.fromkeys(answering) if target is None or pair[1] == into]
        languages = list(dict.fromkeys(language for language, _ in directions))
        source = languages[0] if languages else None
        if len(languages) > 1:
            source = detect(read(directions), languages)[0].language
    return models.translator(name, source, target)


async def translate_document(
    request: Request,
    service: Service,
    name: str,
    content: bytes,
    model: str | None = None,
    source: str | None = None,
    target: str | None = None,
) -> tuple[str, bytes]:
    """Translate a document; return its name, with the language before the ending, and its content.

    Its `name` is one of `safe_name`; `model`, `source` and `target` are those of `chosen`.

    Raises:
        DataError: it is damaged, its format is unknown, or there is no model for it.
        HTTPError: it is too large, or takes too long.
        MissingExtraError: a package for its format is not installed.
    """
    limits = service.config.limits
    if len(content) > limits.file_bytes:
        raise too_much("bytes", len(content), limits.file_bytes, "file_bytes")
    service.expect(1)

    def work(client: Client) -> Flow[tuple[str, bytes]]:
        read = partial(DocumentFile.read, name, content, check=client.go_on)
        served = chosen(service.models, partial(readable, read), model, source, target)
        document = read(served.languages)
        n_characters, n_sentences = document.n_characters, len(document.sentences)
        service.note(request, served.name, n_characters)
        request.state.sentences = n_sentences
        if n_characters > limits.file_characters:
            raise too_much("characters", n_characters, limits.file_characters, "file_characters")
        service.metrics.sentences.labels(served.name).inc(n_sentences)
        translations = yield from document.translations(served.translator, TranslationRequest())
        written = document.written([each.text for each in translations])
        path, language = PurePath(name), served.languages[1]
        return safe_name(f"{path.stem[: MAX_STEM - len(language) - 1]}.{language}{path.suffix}"), written

    return await service.run(request, work, seconds=limits.file_seconds, is_document=True)


def readable(read: Callable[[tuple[str, str]], DocumentFile], directions: Sequence[tuple[str, str]]) -> str:
    """Return the sentences of a document, as the first of `directions` reads it that can."""
    for languages in directions:  # a translation memory can only be read in the languages that it has
        with suppress(DataError):
            return " ".join(read(languages).sentences)
    return " ".join(read(directions[0]).sentences)  # complains


def finite(number: float) -> float | None:
    """Return a number for JSON: rounded; infinity becomes null."""
    return round(number, 4) if math.isfinite(number) else None
