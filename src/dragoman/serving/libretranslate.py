"""LibreTranslate's HTTP interface, so that its clients work unchanged.

Routes, parameters, answers and messages are those of libretranslate/app.py at commit e9e58e6, with /health
(its pull request 868) and the codes for languages of version 1.7 on. docs/libretranslate.md says what is
different on purpose.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ValidationError

from dragoman.config import parse_json
from dragoman.documents import FORMATS, DocumentFile
from dragoman.documents.budget import Budget
from dragoman.documents.hypertext import Hypertext, plain
from dragoman.predict.flow import Flow, TranslationRequest, translated
from dragoman.predict.protection import Protection
from dragoman.serving import schemas, v1
from dragoman.serving.batching import Client
from dragoman.serving.downloads import safe_name
from dragoman.serving.errors import HTTPError, json_response
from dragoman.serving.models import Models, ServedTranslator
from dragoman.serving.service import Service, media_type, service_of
from dragoman.serving.translating import AUTO, translate_document, translation
from dragoman.serving.v1 import attachment, is_json
from dragoman.text.languages import Detected, known, name_of, standard_code
from dragoman.text.languages import detect as languages_of

SURE = 0.1
"""Least confidence, of all languages, that a text is in the target language and comes back as it is."""

router = APIRouter(
    tags=["LibreTranslate"], generate_unique_id_function=lambda route: f"libretranslate_{route.name}"
)

FORMS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
"""Content types that fields may come in."""

Asked = TypeVar("Asked", bound=BaseModel)


@asynccontextmanager
async def read(request: Request, kind: type[Asked]) -> AsyncIterator[Asked]:
    """Yield the message of a request, whose sender is admitted by its api_key too: a reader of `endpoint`.

    What is refused is refused in LibreTranslate's words.
    """
    try:
        fields = await read_fields(request)
        key = fields.get("api_key")
        if key is not None and not isinstance(key, str):
            raise HTTPError(400, "Invalid request: api_key parameter is not a text")
        service_of(request).admit(request, key)
        try:
            needed = ("q", "source", "target")  # as good as missing if they are empty
            message = {name: field for name, field in fields.items() if field or name not in needed}
            asked = kind.model_validate(message)
        except ValidationError as error:
            raise refusal_of(error) from error
        yield asked
    except HTTPError as refusal:
        if refusal.status_code == 401:
            raise HTTPError(403, "Please contact the server operator to get an API key") from refusal
        if refusal.status_code == 403:
            raise HTTPError(403, "Invalid API key") from refusal
        if refusal.status_code == 429:
            raise HTTPError(429, f"Slowdown: {refusal.detail}", refusal.headers) from refusal
        raise
    finally:
        await request.close()  # the files of a form


async def read_fields(request: Request) -> dict[str, Any]:
    """Read the fields of a request: from JSON, or from its query and form; the query goes first.

    HTTPError: the body is not a JSON object (400).
    """
    if is_json(request):
        try:
            fields = parse_json(await request.body())
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            raise HTTPError(400, "Invalid JSON format")
        return fields
    form: list[tuple[str, Any]]  # not read by Starlette, which takes raw bytes for Latin-1
    if media_type(request.headers) == "application/x-www-form-urlencoded":
        try:
            form = list(parse_qsl((await request.body()).decode(), keep_blank_values=True, errors="strict"))
        except ValueError as error:
            raise HTTPError(400, "Invalid request: the form is not UTF-8") from error
    else:
        form = (await request.form(max_part_size=service_of(request).config.limits.body_bytes)).multi_items()
    fields = {**dict(reversed(form)), **dict(reversed(request.query_params.multi_items()))}
    if isinstance(q := fields.get("q"), str):  # forms end lines with "\r\n", whatever was written
        fields["q"] = "\n".join(q.splitlines())
    return fields


def refusal_of(error: ValidationError) -> HTTPError:
    """Return the first mistake in the fields of a request."""
    mistake = error.errors()[0]
    name, kind = mistake["loc"][0], mistake["type"]
    if name == "format":
        return HTTPError(400, f"{shown(mistake['input'])} format is not supported")
    if kind in ("missing", "is_instance_of"):
        return HTTPError(400, f"Invalid request: missing {name} parameter")
    what = {"q": "a text, nor a list of texts", "alternatives": "a number"}.get(str(name), "a text")
    problem = (
        f"is not {what}" if kind != "value_error" else "holds half of a surrogate pair, which is no text"
    )
    return HTTPError(400, f"Invalid request: {name} parameter {problem}")


endpoint = partial(v1.endpoint, router=router, read=read, media=FORMS)


@endpoint("/translate", "Translate text or HTML", schemas.LibreTranslate, schemas.LibreTranslation)
async def translate(
    service: Service, request: Request, asked: schemas.LibreTranslate
) -> schemas.LibreTranslation:
    """Return a text or several in another language.

    `alternatives` says how many more translations of each.
    """
    texts = asked.q if isinstance(asked.q, list) else [asked.q]
    n_alternatives, most = max(0, int(asked.alternatives or 0)), service.config.limits.beam_size - 1
    if n_alternatives > most:
        raise HTTPError(400, f"Invalid request: alternatives parameter must be <= {most}")
    longest, limit = max(map(len, texts)), service.config.limits.characters
    if longest > limit:
        raise HTTPError(400, f"Invalid request: request ({longest}) exceeds text limit ({limit})")
    is_html = asked.format == "html"
    read = [plain(text) for text in texts] if is_html else texts
    directions = [choose(service.models, asked.source, asked.target, text) for text in read]
    results = [[text] for text in texts]
    for served in dict.fromkeys(direction.served for direction in directions if direction.served):
        places = [i for i, direction in enumerate(directions) if direction.served is served]
        of_model = [texts[i] for i in places]
        service.note(request, served.name, sum(map(len, of_model)))
        translated = translate_html if is_html else translate_text
        translations = await translated(request, service, served, of_model, n_alternatives)
        for i, every in zip(places, translations, strict=True):
            results[i] = every
    answer: dict[str, Any] = {"translatedText": [every[0] for every in results]}
    if asked.source == AUTO:
        answer["detectedLanguage"] = [_detected(direction.source) for direction in directions]
    if n_alternatives:
        answer["alternatives"] = [every[1:] for every in results]
    if isinstance(asked.q, str):
        answer = {name: values[0] for name, values in answer.items()}
    return schemas.LibreTranslation(**answer)


async def translate_text(
    request: Request, service: Service, served: ServedTranslator, texts: Sequence[str], n_alternatives: int
) -> list[list[str]]:
    """Translate each text; up to `n_alternatives` others, which differ, follow its translation."""
    asked = schemas.TranslateRequest(text=list(texts), n_best=n_alternatives + 1)
    answer = await service.run(request, partial(translation, service, request, served, asked))
    numbers = range(1, n_alternatives + 1)
    return [
        list(dict.fromkeys((each.text, *filter(None, (alternative_of(each, k) for k in numbers)))))
        for each in answer.translations
    ]


def alternative_of(translation: schemas.TranslationMessage, k: int) -> str:
    """Return a translation made of the alternative `k` of each sentence, or of its last one."""
    text, written, end = translation.text, "", 0
    for sentence in translation.sentences:
        alternatives = sentence.alternatives
        written += text[end : sentence.start] + alternatives[min(k, len(alternatives) - 1)].text
        end = sentence.end
    return written + text[end:]


async def translate_html(
    request: Request, service: Service, served: ServedTranslator, texts: Sequence[str], n_alternatives: int
) -> list[list[str]]:
    """Translate each text as HTML, without alternatives."""

    def work(client: Client) -> Flow[list[list[str]]]:
        budget, pair = Budget("text", client.go_on), served.languages
        pages = [DocumentFile(Hypertext(text, pair, budget), pair, budget) for text in texts]
        sentences = [sentence for page in pages for sentence in page.sentences]
        service.take_in(request, served.name, len(sentences))
        protection: Protection | None = None
        for page in pages:
            protection = page.tags.protection(protection)
        plan = TranslationRequest(protection=protection)
        translations = yield from translated(served.translator, sentences, plan)
        targets = (translation.text for translation in translations)
        return [[page.written(list(islice(targets, len(page.sentences)))).decode()] for page in pages]

    return await service.run(request, work)


@router.get("/languages", summary="List languages", responses={200: {"model": list[schemas.LibreLanguage]}})
def languages(request: Request) -> Response:
    """List all languages, each with its target languages. Needs no key."""
    models = service_of(request).models
    targets = {code: {code} for code in _languages(models)}
    for source, target in models.directions:
        targets[source].add(target)
    messages = [
        schemas.LibreLanguage(code=code, name=name_of(code), targets=sorted(into))
        for code, into in targets.items()
    ]
    return json_response(messages)


@endpoint("/detect", "Detect the language of a text", schemas.LibreDetect, list[schemas.LibreDetection])
async def detect(
    service: Service, request: Request, asked: schemas.LibreDetect
) -> list[schemas.LibreDetection]:
    """Detect the language of a text among those of this service, most likely first."""
    text = asked.q if isinstance(asked.q, str) else "\n".join(asked.q)
    service.take_texts(request, "detection", [text])
    return [_detected(each) for each in languages_of(text, _languages(service.models) or None)]


@endpoint(
    "/translate_file", "Translate a file", schemas.LibreTranslateFile, schemas.LibreFile, media=FORMS[2:]
)
async def translate_file(
    service: Service, request: Request, asked: schemas.LibreTranslateFile
) -> schemas.LibreFile:
    """Translate a document; the response has the URL from which it can be downloaded for a while."""
    if not asked.file.filename:
        raise HTTPError(400, "Invalid request: empty file")
    name = safe_name(asked.file.filename)
    if not name.lower().endswith(tuple(FORMATS)):
        raise HTTPError(400, "Invalid request: file format not supported")
    direction = choose(service.models, asked.source, asked.target, None)
    translated = await translate_document(
        request, service, name, await asked.file.read(), source=direction.source.language,
        target=direction.target,
    )  # fmt: skip
    kept = await to_thread.run_sync(service.downloads.keep, *translated)
    return schemas.LibreFile(translatedFileUrl=f"{request.base_url}download_file/{quote(kept)}")


@router.get(
    "/download_file/{filename}",
    summary="Fetch a translated file",
    response_class=Response,
    responses={
        200: {
            "description": "The file, as an attachment.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        404: {"model": schemas.Problem, "description": "There is no such file, or no more."},
    },
)
def download_file(request: Request, filename: str) -> Response:
    """Download a file of /translate_file. Its name is secret, so that no key is needed."""
    file = service_of(request).downloads.fetch(filename)
    if file is None:
        raise HTTPError(404, "there is no such file, or no more; translate it again")
    return attachment(*file)


@router.get("/frontend/settings", summary="Settings for a page")
def frontend_settings(request: Request) -> schemas.LibreSettings:
    """Return settings for a web page that uses this service. Needs no key."""
    service = service_of(request)
    automatic = first = schemas.NamedLanguage(code=AUTO, name="Auto Detect")
    for _, target in service.models.directions[:1]:
        first = schemas.NamedLanguage(code=target, name=name_of(target))
    return schemas.LibreSettings(
        apiKeys=service.keys is not None,
        charLimit=service.config.limits.characters,
        filesTranslation=True,
        frontendTimeout=500,  # milliseconds of rest before a page translates; LibreTranslate's value
        keyRequired=service.keys is not None,
        language=schemas.LibreDirection(source=automatic, target=first),
        suggestions=False,
        supportedFilesFormat=list(FORMATS),
    )


@router.get("/spec", summary="Name of the interface")
def spec() -> schemas.LibreSpec:
    """Name LibreTranslate, as clients expect it before they accept an address. Needs no key.

    The interface itself is described at /openapi.json.
    """
    return schemas.LibreSpec(info=schemas.LibreInfo(title="LibreTranslate"))


class Direction(NamedTuple):
    """From which language to which, and the model for it; None where a text is to come back as it is."""

    source: Detected
    target: str
    served: ServedTranslator | None


def choose(models: Models, source: str, target: str, text: str | None) -> Direction:
    """Return the languages of `source` and `target`, and the model; without `text`, "auto" stays.

    HTTPError 400: a language is not known, or is not translated into the other one.
    """
    codes, is_auto = _languages(models), source == AUTO
    detected = Detected(AUTO if is_auto else supported(source, codes), 1.0)
    into = supported(target, codes)
    if is_auto and text is None:
        return Direction(detected, into, None)
    if is_auto and text is not None:
        sources = [src for src, tgt in models.directions if tgt == into]
        detected = languages_of(text, [*sources, into])[0]
        if detected.language == into and detected.confidence < SURE:
            detected = languages_of(text, sources or None)[0]
    if (detected.language, into) in models.directions:
        return Direction(detected, into, models.translator(None, detected.language, into))
    is_same = is_auto or standard_code(source) == standard_code(target)  # "en-US" is not "en-GB"
    if is_same and detected.language == into and text is not None:
        return Direction(detected, into, None)
    names = [f"{name_of(code)} ({code})" for code in (into, detected.language)]
    raise HTTPError(400, "{} is not available as a target language from {}".format(*names))


def supported(code: str, codes: Sequence[str]) -> str:
    """Return which of `codes` a client's code means. HTTPError 400: none."""
    language = known(code, codes)
    if language is None:
        raise HTTPError(400, f"{shown(code)} is not supported")
    return language


def _languages(models: Models) -> list[str]:
    """Return every source or target language of the service."""
    return list(dict.fromkeys(language for pair in models.directions for language in pair))


def _detected(guess: Detected) -> schemas.LibreDetection:
    """Return a language in LibreTranslate's format, with a confidence from 0 to 100."""
    return schemas.LibreDetection(confidence=round(100 * guess.confidence, 1), language=guess.language)


def shown(value: Any) -> str:
    """Return a client's text for a message: on one line, 40 characters at most."""
    return " ".join(str(value).encode("utf-8", "replace").decode().split())[:40]
