"""The service's own HTTP API, version 1."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from inspect import getdoc
from operator import attrgetter
from pathlib import PurePath
from typing import Annotated, Any, TypeAlias, TypeVar
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Depends, File, Form, Request, Response, UploadFile
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from dragoman.documents import FORMATS
from dragoman.predict.flow import CHARACTERS_A_TOKEN, ComputeStep, Flow
from dragoman.serving import schemas
from dragoman.serving.batching import Client
from dragoman.serving.downloads import safe_name
from dragoman.serving.errors import PROBLEMS, json_response
from dragoman.serving.models import ServedClassifier, ServedTranslator
from dragoman.serving.service import Service, admitted, media_type, service_of
from dragoman.serving.translating import chosen, texts_of, translate_document, translation
from dragoman.text.languages import detect

router = APIRouter(prefix="/v1", tags=["dragoman"], generate_unique_id_function=attrgetter("name"))

MEDIA_TYPES = {
    ".txt": "text/plain",
    ".srt": "application/x-subrip",
    ".tmx": "application/xml",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    **dict.fromkeys((".html", ".htm"), "text/html"),
}

REFERENCE = "#/components/schemas/{model}"
"""Where OpenAPI describes a message."""

Asked = TypeVar("Asked", bound=BaseModel)
Answering: TypeAlias = Callable[[Service, Request, Asked], Awaitable[Any]]
"""Answer a request, given its service and its message, by a message, several of them, or a response."""

JSON = ("application/json",)


@asynccontextmanager
async def read_json(request: Request, kind: type[Asked]) -> AsyncIterator[Asked]:
    """Yield the message of a request, which is JSON; its sender is admitted before its body is read.

    A body parameter of FastAPI would be read before that, and by the rules of Python's JSON.
    """
    service_of(request).admit(request)
    body = await request.body() if is_json(request) else b"null"
    try:
        asked = kind.model_validate_json(body)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        raise RequestValidationError(
            [{**each, "loc": ("body", *each["loc"])} for each in problems]
        ) from error
    yield asked


def endpoint(
    path: str,
    summary: str,
    kind: type[Asked],
    answer: Any,
    *,
    router: APIRouter = router,
    read: Callable[[Request, type[Any]], AbstractAsyncContextManager[Any]] = read_json,
    media: Sequence[str] = JSON,
    **success: Any,
) -> Callable[[Answering[Asked]], Answering[Asked]]:
    """Return a decorator: the function answers a POST request with an `answer`, given its message, a `kind`.

    `media` are content types of the message, `success` further facts of the answer for OpenAPI.
    """
    schema = kind.model_json_schema(ref_template=REFERENCE)
    body = {"required": True, "content": {each: {"schema": schema} for each in media}}
    responses = {200: {"model": answer, **success}, **PROBLEMS}

    def register(function: Answering[Asked]) -> Answering[Asked]:
        @router.post(
            path, name=function.__name__, summary=summary, description=getdoc(function),
            responses=responses, openapi_extra={"requestBody": body},
        )  # fmt: skip
        async def respond(request: Request) -> Response:
            async with read(request, kind) as asked:
                answer = await function(service_of(request), request, asked)
            return answer if isinstance(answer, Response) else json_response(answer)

        return function

    return register


def is_json(request: Request) -> bool:
    """Return whether the Content-Type of `request` says that its body is JSON."""
    kind = media_type(request.headers)
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


@router.get("/models", summary="List models", response_model_exclude_unset=True)
def models(request: Request) -> schemas.ModelsResponse:
    """List models, their languages or labels, and the limits of a request. Needs no key."""
    service = service_of(request)
    limits = service.config.limits
    messages: list[schemas.ModelMessage] = []
    for served in service.models.served:
        facts: dict[str, Any] = {name: getattr(served, name) for name in ("name", "parameters", "precision")}
        if isinstance(served, ServedTranslator):
            source, target = served.languages
            beam_size = served.translator.config.search.beam_size
            most = max(limits.beam_size, beam_size)
            facts |= {"source": source, "target": target, "beam_size": beam_size, "max_n_best": most}
            facts |= {"pivot": served.pivot} if served.pivot else {}
            messages.append(schemas.ModelMessage(task="translation", **facts))
        elif isinstance(served, ServedClassifier):
            labels = list(served.classifier.labels)
            messages.append(schemas.ModelMessage(task="classification", labels=labels, **facts))
    return schemas.ModelsResponse(
        models=messages,
        limits=schemas.LimitsMessage.model_validate(limits, from_attributes=True),
        needs_key=service.keys is not None,
        formats=list(FORMATS),
    )


EVENTS: dict[str, Any] = {
    "description": "Translations; with `stream`, server-sent events, whose data are JSON.",
    "content": {"text/event-stream": {"schema": {
        "type": "object",
        "properties": {
            "event": {"enum": ["begin", "sentence", "done", "error"]},
            "data": {"type": "string", "contentMediaType": "application/json"},
        },
        "required": ["event", "data"],
    }}},
}  # fmt: skip


@endpoint("/translate", "Translate text", schemas.TranslateRequest, schemas.TranslateResponse, **EVENTS)
async def translate(
    service: Service, request: Request, asked: schemas.TranslateRequest
) -> schemas.TranslateResponse | Response:
    """Translate one or several texts; with `stream`, send server-sent events while translating."""
    texts = texts_of(asked)
    served = chosen(service.models, lambda _: "\n".join(texts), asked.model, asked.source, asked.target)
    service.take_texts(request, served.name, texts)
    work = partial(translation, service, request, served, asked)
    return await (service.stream if asked.stream else service.run)(request, work)


@endpoint("/classify", "Classify text", schemas.ClassifyRequest, schemas.ClassifyResponse)
async def classify(
    service: Service, request: Request, asked: schemas.ClassifyRequest
) -> schemas.ClassifyResponse:
    """Classify one or several texts: label and label probabilities."""
    served = service.models.classifier(asked.model)
    texts = texts_of(asked)
    service.take_texts(request, served.name, texts)
    service.take_in(request, served.name, len(texts), "texts")

    def work(_: Client) -> Flow[schemas.ClassifyResponse]:
        costs = [len(text) // CHARACTERS_A_TOKEN for text in texts]
        results = [
            schemas.ClassificationMessage(
                label=each.label or None,
                labels=list(each.labels),
                probabilities={label: round(p, 6) for label, p in each.probabilities.items()},
                n_cut=each.n_cut,
            )
            for each in (yield ComputeStep(served.classifier.classify, texts, costs))
        ]
        return schemas.ClassifyResponse(model=served.name, results=results)

    return await service.run(request, work)


@endpoint("/detect", "Detect a language", schemas.DetectRequest, schemas.DetectResponse)
async def detect_language(
    service: Service, request: Request, asked: schemas.DetectRequest
) -> schemas.DetectResponse:
    """Detect the language of a text: the five most likely ones."""
    service.take_texts(request, "detection", [asked.text])
    languages = [
        schemas.LanguageMessage(language=each.language, confidence=round(each.confidence, 4))
        for each in (await to_thread.run_sync(detect, asked.text))[:5]
    ]
    return schemas.DetectResponse(languages=languages)


@router.post(
    "/documents",
    summary="Translate a document",
    response_class=Response,
    responses={
        200: {
            "description": "The document, as an attachment whose name ends like that of the file sent.",
            "content": {media: {"schema": {"type": "string", "format": "binary"}} for media in (
                *dict.fromkeys(MEDIA_TYPES.values()), "application/octet-stream",
            )},
        },
        **PROBLEMS,
    },
    dependencies=[Depends(admitted)],  # before its fields are checked
)  # fmt: skip
async def documents(
    request: Request,
    file: Annotated[UploadFile, File(description=f"Its name ends in {', '.join(FORMATS)}.")],
    model: Annotated[
        str | None, Form(description="Its name; without one the first of the direction.")
    ] = None,
    source: Annotated[str | None, Form(description='Its language, or "auto".', examples=["en"])] = None,
    target: Annotated[str | None, Form(description="That of the translation.", examples=["de"])] = None,
) -> Response:
    """Translate a document; its format and formatting stay."""
    name, content = safe_name(file.filename or ""), await file.read()
    service = service_of(request)
    return attachment(*await translate_document(request, service, name, content, model, source, target))


def attachment(name: str, content: bytes) -> Response:
    """Return a file that a browser saves as `name`, in any script (RFC 6266, RFC 5987)."""
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    headers: dict[str, Any] = {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Type": MEDIA_TYPES.get(PurePath(name).suffix.lower(), "application/octet-stream"),
        "Cache-Control": "no-store",
    }
    return Response(content, headers=headers)
