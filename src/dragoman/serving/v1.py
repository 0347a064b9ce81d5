"""The service's own HTTP API, version 1."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from dragoman.errors import DataError, DragomanError
from dragoman.predict.attention import cross_attention, n_weights
from dragoman.predict.classifier import Classification, Classifier
from dragoman.predict.occlusion import Explanation, word_importance
from dragoman.predict.scoring import ScoredTranslation, score_translations
from dragoman.serving.batching import Client, GoneError
from dragoman.serving.detection import AUTO, detect_source
from dragoman.serving.documents import ENDINGS
from dragoman.serving.errors import HTTPError, refusal_of, too_much
from dragoman.serving.models import Models, ServedTranslator
from dragoman.serving.openapi import PROBLEMS
from dragoman.serving.schemas import (
    AttentionRequest,
    AttentionResponse,
    ClassifyRequest,
    ClassifyResponse,
    DetectRequest,
    DetectResponse,
    ModelsResponse,
    ScoreRequest,
    ScoreResponse,
    TranslateRequest,
    TranslateResponse,
)
from dragoman.serving.service import Service
from dragoman.serving.translating import Tell, TranslationJob, finite
from dragoman.text.detection import detect

router = APIRouter(prefix="/v1")

MAX_ATTENTION_WEIGHTS = 1 << 20
"""Of all layers and heads, in one response: about 8 MB of JSON."""

CHARACTERS_A_TOKEN = 4
"""About; what a text costs, before it is cut into tokens."""


def answers(model: type) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route: `model`, or a problem."""
    return {200: {"model": model}, **PROBLEMS}


@router.get("/models", summary="List models", responses={200: {"model": ModelsResponse}})
def models(request: Request) -> Response:
    """List models, their languages or labels, and the limits of a request. Needs no key."""
    service: Service = request.app.state.service
    limits = service.config.limits
    found: list[dict[str, Any]] = []
    for served in service.models.served:
        info = served.info
        facts = {"name": info.name, "parameters": info.n_parameters}
        facts |= {"precision": info.precision, "engine": info.engine}
        if isinstance(served, ServedTranslator):
            source, target = served.languages
            beam_size = served.translator.config.search.beam_size
            most = max(limits.beam_size, beam_size)
            facts |= {"task": "translation", "source": source, "target": target}
            found.append(facts | {"beam_size": beam_size, "max_n_best": most})
        else:
            found.append(facts | {"task": "classification", "labels": list(served.classifier.labels)})
    sizes = {name: getattr(limits, name) for name in ("characters", "file_bytes", "file_characters")}
    return JSONResponse(
        {"models": found, "limits": sizes, "needs_key": service.keys is not None, "formats": list(ENDINGS)}
    )


EVENTS = {
    "description": "Translations; with `stream`, server-sent events, whose data are JSON.",
    "content": {"text/event-stream": {"schema": {
        "type": "object",
        "properties": {
            "event": {"enum": ["begin", "partial", "sentence", "done", "error"]},
            "data": {"type": "string", "contentMediaType": "application/json"},
        },
        "required": ["event", "data"],
    }}},
}  # fmt: skip


@router.post(
    "/translate",
    summary="Translate text",
    responses=answers(TranslateResponse) | {200: {"model": TranslateResponse, **EVENTS}},
)
async def translate(request: Request, asked: TranslateRequest) -> Response:
    """Translate one or several texts; with `stream`, send server-sent events while translating."""
    service: Service = request.app.state.service
    service.admit(request)
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    served = choose(service.models, asked.model, asked.source, asked.target, "\n".join(texts))
    note(request, service, served.info.name, texts)

    job = partial(begin, request, service, served, asked)
    if not asked.stream:
        return JSONResponse(await service.run(request, lambda client: job(client).answer()))

    def work(client: Client, tell: Tell) -> None:
        job(client).stream(tell)

    events = service.stream(request, work)
    first = await anext(events)  # what is refused is refused with its status
    return StreamingResponse(
        _sent(first, events), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


def begin(
    request: Request, service: Service, served: ServedTranslator, asked: TranslateRequest, client: Client
) -> TranslationJob:
    """The job of a request, noted. Errors as `TranslationJob`, and HTTPError: too much waits already."""
    job = TranslationJob(served, asked, service.config.limits, client)
    service.take_in(request, served.info.name, job.n_sentences)
    return job


async def _sent(
    first: tuple[str, dict[str, Any]], events: AsyncIterator[tuple[str, dict[str, Any]]]
) -> AsyncIterator[bytes]:
    """Events as they are sent: `event:` and `data:`, one line each. What goes wrong is the last of them."""
    yield _event(*first)
    try:
        async for event in events:
            yield _event(*event)
    except GoneError:
        return
    except HTTPError as refusal:
        yield _event("error", {"error": refusal.message})
    except DragomanError as error:
        yield _event("error", {"error": refusal_of(error).message})


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


@router.post("/attention", summary="Show attention", responses=answers(AttentionResponse))
async def attention(request: Request, asked: AttentionRequest) -> Response:
    """Attention weights of a translator for a sentence and its translation, by layer and head."""
    service: Service = request.app.state.service
    service.admit(request)
    served = service.models.translator(asked.model)
    note(request, service, served.info.name, [asked.text, asked.target or ""])

    def work(client: Client) -> dict[str, Any]:
        target = asked.target
        if target is None:
            target = served.for_client(client).translate([asked.text])[0].text
        if (n := n_weights(served.translator, asked.text, target)) > MAX_ATTENTION_WEIGHTS:
            raise HTTPError(
                413,
                f"{n:,} attention weights are more than the limit of {MAX_ATTENTION_WEIGHTS:,}; "
                "send a shorter text",
            )
        found = client.run(
            partial(cross_attention, served.translator, asked.text, target),
            len(asked.text) // CHARACTERS_A_TOKEN,
        )
        return {
            "source_tokens": list(found.src_tokens),
            "target_tokens": list(found.tgt_tokens),
            "weights": found.weights.astype(float).round(4).tolist(),
        }

    return JSONResponse(await service.run(request, work))


@router.post("/score", summary="Score translations", responses=answers(ScoreResponse))
async def score(request: Request, asked: ScoreRequest) -> Response:
    """Score given translations, token by token."""
    service: Service = request.app.state.service
    service.admit(request)
    served = service.models.translator(asked.model)
    sources, targets = [pair.source for pair in asked.pairs], [pair.target for pair in asked.pairs]
    note(request, service, served.info.name, sources + targets)
    if len(sources) > service.config.limits.sentences:
        raise too_much("pairs", len(sources), service.config.limits.sentences, "sentences")
    service.expect(1)

    def work(client: Client) -> dict[str, Any]:
        cost = sum(map(len, sources)) // CHARACTERS_A_TOKEN
        scored = client.run(partial(score_translations, served.translator, sources, targets), cost)
        return {"model": served.info.name, "scores": [_score(each) for each in scored]}

    return JSONResponse(await service.run(request, work))


def _score(scored: ScoredTranslation) -> dict[str, Any]:
    return {
        "log_prob": finite(scored.log_prob),
        "perplexity": round(scored.perplexity, 4),
        "tokens": [{"piece": token.piece, "log_prob": finite(token.log_prob)} for token in scored.tokens],
    }


@router.post("/classify", summary="Classify text", responses=answers(ClassifyResponse))
async def classify(request: Request, asked: ClassifyRequest) -> Response:
    """Classify one or several texts: label, label probabilities and, on request, word importance."""
    service: Service = request.app.state.service
    service.admit(request)
    served = service.models.classifier(asked.model)
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    note(request, service, served.info.name, texts)
    if len(texts) > service.config.limits.sentences:
        raise too_much("texts", len(texts), service.config.limits.sentences, "sentences")
    service.take_in(request, served.info.name, len(texts))

    def work(client: Client) -> dict[str, Any]:
        costs = [len(text) // CHARACTERS_A_TOKEN for text in texts]
        found = client.results(served.classifier.classify, texts, costs)
        explained: list[Explanation | None] = [None] * len(texts)
        if asked.explain:
            explained = [_explained(client, served.classifier, each) for each in found]
        results = [_classification(each, why) for each, why in zip(found, explained, strict=True)]
        return {"model": served.info.name, "results": results}

    return JSONResponse(await service.run(request, work))


def _explained(client: Client, classifier: Classifier, found: Classification) -> Explanation | None:
    if not found.label:
        return None
    explain = partial(word_importance, classifier, [found.text], labels=[found.label], progress=client.go_on)
    cost = len(found.text) * len(found.text.split()) // CHARACTERS_A_TOKEN
    return client.run(explain, cost)[0]


def _classification(found: Classification, why: Explanation | None) -> dict[str, Any]:
    words = None if why is None else [
        {"start": each.start, "end": each.end, "effect": round(each.effect, 4)} for each in why.effects
    ]  # fmt: skip
    return {
        "label": found.label or None,
        "probabilities": {label: round(p, 6) for label, p in found.probabilities.items()},
        "n_cut": found.n_cut,
        "words": words,
    }


@router.post("/detect", summary="Detect a language", responses=answers(DetectResponse))
def detect_language(request: Request, asked: DetectRequest) -> Response:
    """Detect the language of a text: the five most likely ones."""
    service: Service = request.app.state.service
    service.admit(request)
    note(request, service, "detection", [asked.text])
    languages = [
        {"language": each.language, "confidence": round(each.confidence, 4)}
        for each in detect(asked.text)[:5]
    ]
    return JSONResponse({"languages": languages})


def choose(
    models: Models, name: str | None, source: str | None, target: str | None, text: str
) -> ServedTranslator:
    """The translator of this name or direction; of "auto", for the language of `text`. DataError: none is."""
    if source == AUTO:
        if name is not None:
            return models.translator(name, None, target)
        sources = [src for src, tgt in models.directions if target in (None, tgt)]
        source = detect_source(text, sources)
    return models.translator(name, source, target)


def note(request: Request, service: Service, model: str, texts: Sequence[str]) -> None:
    """What the log and the figures hold of a request. HTTPError: its texts are longer than allowed."""
    n_characters = sum(map(len, texts))
    request.state.model, request.state.characters = model, n_characters
    if service.config.log_text:
        request.state.text = "\n".join(texts)
    service.metrics.characters.labels(model).inc(n_characters)
    if n_characters > service.config.limits.characters:
        raise too_much("characters", n_characters, service.config.limits.characters, "characters")
    if not texts:
        raise DataError("there is no text; send one at least")
