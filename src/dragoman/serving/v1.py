"""The service's own HTTP API, version 1."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ValidationError

from dragoman.documents import FORMATS
from dragoman.errors import DragomanError
from dragoman.predict.attention import attention_maps, n_weights
from dragoman.predict.classifier import Classification
from dragoman.predict.flow import CHARACTERS_A_TOKEN, ComputeStep, Flow, computed, translated
from dragoman.predict.occlusion import Explanation, word_importance
from dragoman.predict.request import TranslationRequest
from dragoman.predict.scoring import score_pairs
from dragoman.serving.batching import Client, GoneError
from dragoman.serving.documents import chosen
from dragoman.serving.errors import PROBLEMS, HTTPError, json_response, refusal_of, too_much
from dragoman.serving.models import ServedTranslator
from dragoman.serving.schemas import (
    AttentionRequest,
    AttentionResponse,
    ClassificationMessage,
    ClassifyRequest,
    ClassifyResponse,
    DetectRequest,
    DetectResponse,
    EffectMessage,
    LanguageMessage,
    LimitsMessage,
    ModelMessage,
    ModelsResponse,
    Problem,
    ScoredTokenMessage,
    ScoreMessage,
    ScoreRequest,
    ScoreResponse,
    TranslateRequest,
    TranslateResponse,
)
from dragoman.serving.service import Event, media_type, service_of
from dragoman.serving.translating import Tell, TranslationJob, finite
from dragoman.text.languages import detect

router = APIRouter(prefix="/v1", tags=["dragoman"], generate_unique_id_function=attrgetter("name"))

MAX_ATTENTION_WEIGHTS = 1 << 20
"""Of all layers and heads, in one response: about 8 MB of JSON."""


REFERENCE = "#/components/schemas/{model}"
"""Where OpenAPI describes a message."""


def described(
    asked: type[BaseModel], answer: Any, kinds: Sequence[str] = ("application/json",), **success: Any
) -> dict[str, Any]:
    """Return what OpenAPI says of a route: it reads an `asked` of these content types, and returns `answer`.

    `success` are further facts of its answer.
    """
    schema = asked.model_json_schema(ref_template=REFERENCE)
    body = {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
    responses = {200: {"model": answer, **success}, **PROBLEMS}
    return {"responses": responses, "openapi_extra": {"requestBody": body}}


def posted(kind: type[BaseModel]) -> Any:
    """Return the dependency that admits the sender of a request, then reads its body as a `kind`.

    A body parameter would be read before its sender is admitted, and by the rules of Python's JSON.
    """

    async def read(request: Request) -> BaseModel:
        service_of(request).admit(request)
        body = await request.body() if is_json(request) else b"null"
        try:
            return kind.model_validate_json(body)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            raise RequestValidationError(
                [{**each, "loc": ("body", *each["loc"])} for each in problems]
            ) from error

    return Depends(read)


def is_json(request: Request) -> bool:
    """Return whether the Content-Type of `request` says that its body is JSON."""
    kind = media_type(request.headers)
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


@router.get("/models", summary="List models", response_model_exclude_unset=True)
def models(request: Request) -> ModelsResponse:
    """List models, their languages or labels, and the limits of a request. Needs no key."""
    service = service_of(request)
    limits = service.config.limits
    messages: list[ModelMessage] = []
    for served in service.models.served:
        info = served.info
        facts: dict[str, Any] = {"name": info.name, "parameters": info.n_parameters}
        facts |= {"precision": info.precision, "engine": info.engine}
        if isinstance(served, ServedTranslator):
            source, target = served.languages
            beam_size = served.translator.config.search.beam_size
            most = max(limits.beam_size, beam_size)
            facts |= {"source": source, "target": target, "beam_size": beam_size, "max_n_best": most}
            facts |= {"pivot": served.pivot} if served.pivot else {}
            messages.append(ModelMessage(task="translation", **facts))
        else:
            labels = list(served.classifier.labels)
            messages.append(ModelMessage(task="classification", labels=labels, **facts))
    return ModelsResponse(
        models=messages,
        limits=LimitsMessage(**{name: getattr(limits, name) for name in LimitsMessage.model_fields}),
        needs_key=service.keys is not None,
        formats=list(FORMATS),
    )


EVENTS: dict[str, Any] = {
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
    "/translate", summary="Translate text", **described(TranslateRequest, TranslateResponse, **EVENTS)
)
async def translate(
    request: Request, asked: Annotated[TranslateRequest, posted(TranslateRequest)]
) -> Response:
    """Translate one or several texts; with `stream`, send server-sent events while translating."""
    service = service_of(request)
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    joined = "\n".join(texts)
    served = chosen(service.models, lambda _: joined, asked.model, asked.source, asked.target)
    service.take_texts(request, served.info.name, texts)

    def begin() -> TranslationJob:
        job = TranslationJob(served, asked, service.config.limits)
        service.take_in(request, served.info.name, job.n_sentences)
        return job

    def answer(_: Client) -> Flow[TranslateResponse]:
        return (yield from begin().answer())

    def work(client: Client, tell: Tell) -> Flow[None]:
        job = begin()
        client.see = job.teller(tell)
        yield from job.stream(tell)

    if not asked.stream:
        return json_response(await service.run(request, answer))
    events = service.stream(request, work)
    first = await anext(events)  # what is refused is refused with its status
    return StreamingResponse(
        _sent(first, events), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


async def _sent(first: Event, events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """Yield events as they are sent: `event:` and `data:`, one line each. An error is the last event."""
    yield _event(first)
    try:
        async for event in events:
            yield _event(event)
    except GoneError:
        return
    except HTTPError as refusal:
        yield _event(("error", Problem(error=refusal.detail)))
    except DragomanError as error:
        yield _event(("error", Problem(error=refusal_of(error).detail)))


def _event(event: Event) -> bytes:
    name, data = event
    return f"event: {name}\ndata: {data.model_dump_json(exclude_unset=True)}\n\n".encode()


@router.post("/attention", summary="Show attention", **described(AttentionRequest, AttentionResponse))
async def attention(
    request: Request, asked: Annotated[AttentionRequest, posted(AttentionRequest)]
) -> Response:
    """Attention weights of a translator for a sentence and its translation, by layer and head."""
    service = service_of(request)
    info, translator = service.models.in_one_step(asked.model, asked.to)
    texts = [asked.text, asked.target or ""]
    service.take_texts(request, info.name, texts)

    def work(_: Client) -> Flow[AttentionResponse]:
        target = asked.target
        if target is None:
            (translation,) = yield from translated(translator, [asked.text], TranslationRequest())
            target = translation.text
        if (n := n_weights(translator, asked.text, target)) > MAX_ATTENTION_WEIGHTS:
            raise HTTPError(
                413,
                f"{n:,} attention weights are more than the limit of {MAX_ATTENTION_WEIGHTS:,}; "
                "send a shorter text",
            )
        maps = yield from computed(
            partial(attention_maps, translator, asked.text, target), len(asked.text) // CHARACTERS_A_TOKEN
        )
        result = maps.cross
        return AttentionResponse(
            source_tokens=list(result.columns),
            target_tokens=list(result.rows),
            weights=result.weights.astype(float).round(4).tolist(),
        )

    return json_response(await service.run(request, work))


@router.post("/score", summary="Score translations", **described(ScoreRequest, ScoreResponse))
async def score(request: Request, asked: Annotated[ScoreRequest, posted(ScoreRequest)]) -> Response:
    """Score given translations, token by token."""
    service = service_of(request)
    info, translator = service.models.in_one_step(asked.model, asked.to)
    sources, targets = [pair.source for pair in asked.pairs], [pair.target for pair in asked.pairs]
    service.take_texts(request, info.name, sources + targets)
    if len(sources) > service.config.limits.sentences:
        raise too_much("pairs", len(sources), service.config.limits.sentences, "sentences")
    service.expect(1)

    def work(_: Client) -> Flow[ScoreResponse]:
        cost = sum(map(len, sources)) // CHARACTERS_A_TOKEN
        scored = yield from computed(partial(score_pairs, translator, sources, targets, first_number=1), cost)
        scores = [
            ScoreMessage(
                log_prob=finite(each.log_prob),
                perplexity=round(each.perplexity, 4),
                tokens=[
                    ScoredTokenMessage(piece=piece, log_prob=finite(log_prob))
                    for piece, log_prob in each.tokens(translator.tokenizers.tgt, target)
                ],
            )
            for each, target in zip(scored, targets, strict=True)
        ]
        return ScoreResponse(model=info.name, scores=scores)

    return json_response(await service.run(request, work))


@router.post("/classify", summary="Classify text", **described(ClassifyRequest, ClassifyResponse))
async def classify(request: Request, asked: Annotated[ClassifyRequest, posted(ClassifyRequest)]) -> Response:
    """Classify one or several texts: label, label probabilities and, on request, word importance."""
    service = service_of(request)
    served = service.models.classifier(asked.model)
    texts = [asked.text] if isinstance(asked.text, str) else asked.text
    service.take_texts(request, served.info.name, texts)
    service.take_in(request, served.info.name, len(texts), "texts")

    def work(client: Client) -> Flow[ClassifyResponse]:
        costs = [len(text) // CHARACTERS_A_TOKEN for text in texts]
        results = []
        for each in (yield ComputeStep(served.classifier.classify, texts, costs)):
            why = None
            if asked.explain and each.label:
                (why,) = yield from computed(
                    partial(
                        word_importance, served.classifier, [each.text], labels=[each.label],
                        progress=client.go_on,
                    ),
                    len(each.text) * len(each.text.split()) // CHARACTERS_A_TOKEN,
                )  # fmt: skip
            results.append(_classification(each, why))
        return ClassifyResponse(model=served.info.name, results=results)

    return json_response(await service.run(request, work))


def _classification(result: Classification, why: Explanation | None) -> ClassificationMessage:
    effects = None if why is None else [
        EffectMessage(start=each.start, end=each.end, effect=round(each.effect, 4)) for each in why.effects
    ]  # fmt: skip
    return ClassificationMessage(
        label=result.label or None,
        labels=list(result.labels),
        probabilities={label: round(p, 6) for label, p in result.probabilities.items()},
        n_cut=result.n_cut,
        words=effects,
    )


@router.post("/detect", summary="Detect a language", **described(DetectRequest, DetectResponse))
async def detect_language(
    request: Request, asked: Annotated[DetectRequest, posted(DetectRequest)]
) -> Response:
    """Detect the language of a text: the five most likely ones."""
    service = service_of(request)
    service.take_texts(request, "detection", [asked.text])
    languages = [
        LanguageMessage(language=each.language, confidence=round(each.confidence, 4))
        for each in (await to_thread.run_sync(detect, asked.text))[:5]
    ]
    return json_response(DetectResponse(languages=languages))
