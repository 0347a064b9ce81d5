"""LibreTranslate's HTTP interface, so that its clients work unchanged.

Routes, parameters, answers and messages are those of libretranslate/app.py at commit e9e58e6, with /health
(its pull request 868) and the codes for languages of version 1.7 on. docs/libretranslate.md says what is
different on purpose.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, quote

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from starlette.datastructures import UploadFile

from dragoman.config import parse_json
from dragoman.documents import FORMATS, DocumentFile
from dragoman.documents.budget import Budget
from dragoman.documents.hypertext import Hypertext, plain
from dragoman.predict.flow import Flow, TranslationRequest, translated
from dragoman.predict.protection import Protection
from dragoman.serving import schemas
from dragoman.serving.batching import Client
from dragoman.serving.downloads import safe_name
from dragoman.serving.errors import HTTPError, json_response
from dragoman.serving.models import Models, ServedTranslator
from dragoman.serving.service import Service, service_of
from dragoman.serving.translating import AUTO, translate_document, translation
from dragoman.serving.v1 import attachment, described, is_json
from dragoman.text.languages import Detected, detect, known, name_of, standard_code

FRONTEND_TIMEOUT = 500
"""Milliseconds that a page waits after a key press before it translates; LibreTranslate's value."""

SURE = 0.1
"""Least confidence, of all languages, that a text is in the target language and comes back as it is."""

MAX_SHOWN = 40
"""Maximum characters of a client's text in a message."""


router = APIRouter(
    tags=["LibreTranslate"], generate_unique_id_function=lambda route: f"libretranslate_{route.name}"
)
FORMS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
"""Content types that fields may come in."""


async def admitted(request: Request) -> AsyncIterator[dict[str, Any]]:
    """Yield the fields of a request, whose sender is admitted by its api_key too: a dependency of routes.

    What is refused is refused in LibreTranslate's words. The files of a form are closed at the end.
    """
    try:
        fields = await read_fields(request)
        key = fields.get("api_key")
        if key is not None and not isinstance(key, str):
            raise HTTPError(400, "Invalid request: api_key parameter is not a text")
        service_of(request).admit(request, key)
        yield fields
    except HTTPError as refusal:
        if refusal.status_code == 401:
            raise HTTPError(403, "Please contact the server operator to get an API key") from refusal
        if refusal.status_code == 403:
            raise HTTPError(403, "Invalid API key") from refusal
        if refusal.status_code == 429:
            raise HTTPError(429, f"Slowdown: {refusal.detail}", refusal.headers) from refusal
        raise
    finally:
        await request.close()


Fields: TypeAlias = Annotated[dict[str, Any], Depends(admitted)]


@router.post(
    "/translate",
    summary="Translate text or HTML",
    **described(schemas.LibreTranslate, schemas.LibreTranslation, FORMS),
)
async def translate(request: Request, fields: Fields) -> Response:
    """Return a text or several in another language.

    `alternatives` says how many more translations of each.
    """
    service = service_of(request)
    texts, source, target = _texts(fields), required(fields, "source"), required(fields, "target")
    n_alternatives = _n_alternatives(fields, service)
    longest, limit = max(map(len, texts)), service.config.limits.characters
    if longest > limit:
        raise HTTPError(400, f"Invalid request: request ({longest}) exceeds text limit ({limit})")
    text_format = fields.get("format")
    is_html = text_format == "html"
    read = [plain(text) for text in texts] if is_html else texts
    directions = [choose(service.models, source, target, text) for text in read]
    if text_format not in ("text", "html", "", None):
        raise HTTPError(400, f"{shown(text_format)} format is not supported")
    results = [[text] for text in texts]
    for served in dict.fromkeys(direction.served for direction in directions if direction.served):
        places = [i for i, direction in enumerate(directions) if direction.served is served]
        of_model = [texts[i] for i in places]
        service.note_texts(request, served.info.name, of_model)
        translated = translate_html if is_html else translate_text
        translations = await translated(request, service, served, of_model, n_alternatives)
        for i, every in zip(places, translations, strict=True):
            results[i] = every
    is_batch = isinstance(fields["q"], list)
    answer = schemas.LibreTranslation(
        translatedText=[every[0] for every in results] if is_batch else results[0][0]
    )
    if source == AUTO:
        detected = [_detected(direction.source) for direction in directions]
        answer.detectedLanguage = detected if is_batch else detected[0]
    if n_alternatives:
        answer.alternatives = [every[1:] for every in results] if is_batch else results[0][1:]
    return json_response(answer)


async def translate_text(
    request: Request, service: Service, served: ServedTranslator, texts: Sequence[str], n_alternatives: int
) -> list[list[str]]:
    """Translate each text; up to `n_alternatives` others, which differ, follow its translation."""
    asked = schemas.TranslateRequest(text=list(texts), n_best=n_alternatives + 1)
    answer = await service.run(request, partial(translation, service, request, served, asked))
    results = []
    for each in answer.translations:
        alternatives = (alternative_of(each, k) for k in range(1, n_alternatives + 1))
        results.append(list(dict.fromkeys((each.text, *filter(None, alternatives)))))
    return results


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
        service.take_in(request, served.info.name, len(sentences))
        protection: Protection | None = None
        for page in pages:
            protection = page.tags.protection(protection)
        kept = TranslationRequest(protection=protection)
        translations = yield from translated(served.translator, sentences, kept)
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
    return json_response(
        [
            schemas.LibreLanguage(code=code, name=name_of(code), targets=sorted(into))
            for code, into in targets.items()
        ]
    )


@router.post(
    "/detect",
    name="detect",
    summary="Detect the language of a text",
    **described(schemas.LibreDetect, list[schemas.LibreDetection], FORMS),
)
async def detect_language(request: Request, fields: Fields) -> Response:
    """Detect the language of a text among those of this service, most likely first."""
    service = service_of(request)
    text = "\n".join(_texts(fields))
    service.take_texts(request, "detection", [text])
    return json_response([_detected(each) for each in detect(text, _languages(service.models) or None)])


@router.post(
    "/translate_file",
    summary="Translate a file",
    **described(schemas.LibreTranslateFile, schemas.LibreFile, FORMS[2:]),
)
async def translate_file(request: Request, fields: Fields) -> Response:
    """Translate a document; the response has the URL from which it can be downloaded for a while."""
    service = service_of(request)
    file = fields.get("file")
    if not isinstance(file, UploadFile):
        raise HTTPError(400, "Invalid request: missing file parameter")
    source, target = required(fields, "source"), required(fields, "target")
    if not file.filename:
        raise HTTPError(400, "Invalid request: empty file")
    name = safe_name(file.filename)
    if not name.lower().endswith(tuple(FORMATS)):
        raise HTTPError(400, "Invalid request: file format not supported")
    direction = choose(service.models, source, target, None)
    translated = await translate_document(
        request, service, name, await file.read(), source=direction.source.language, target=direction.target
    )
    kept = await to_thread.run_sync(service.downloads.keep, *translated)
    address = f"{request.base_url}download_file/{quote(kept)}"
    return json_response(schemas.LibreFile(translatedFileUrl=address))


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
    automatic = schemas.NamedLanguage(code=AUTO, name="Auto Detect")
    targets = [target for _, target in service.models.directions][:1]
    first = [schemas.NamedLanguage(code=target, name=name_of(target)) for target in targets]
    return schemas.LibreSettings(
        apiKeys=service.keys is not None,
        charLimit=service.config.limits.characters,
        filesTranslation=True,
        frontendTimeout=FRONTEND_TIMEOUT,
        keyRequired=service.keys is not None,
        language=schemas.LibreDirection(source=automatic, target=first[0] if first else automatic),
        suggestions=False,
        supportedFilesFormat=list(FORMATS),
    )


@router.get("/spec", summary="Name of the interface")
def spec() -> schemas.LibreSpec:
    """Name LibreTranslate, as clients expect it before they accept an address. Needs no key.

    The interface itself is described at /openapi.json.
    """
    return schemas.LibreSpec(info=schemas.LibreInfo(title="LibreTranslate"))


@router.post(
    "/suggest",
    summary="Suggest a better translation",
    status_code=403,
    responses={403: {"model": schemas.Problem, "description": "Always."}},
)
async def suggest(_: Request) -> Response:
    """Unsupported: suggestions are not stored."""
    raise HTTPError(403, "Suggestions are disabled on this server.")


class Direction(NamedTuple):
    """From which language to which, and the model for it; None where a text is to come back as it is."""

    source: Detected
    target: str
    served: ServedTranslator | None


def choose(models: Models, source: str, target: str, text: str | None) -> Direction:
    """Return the languages of `source` and `target`, and the model; without `text`, "auto" stays.

    HTTPError 400: a language is not known, or is not translated into the other one.
    """
    codes = _languages(models)
    into = known(target, codes)
    if source != AUTO:
        language = known(source, codes)
        if language is None:
            raise HTTPError(400, f"{shown(source)} is not supported")
        detected = Detected(language, 1.0)
    if into is None:
        raise HTTPError(400, f"{shown(target)} is not supported")
    if source == AUTO:
        if text is None:
            return Direction(Detected(AUTO, 0.0), into, None)
        sources = [src for src, tgt in models.directions if tgt == into]
        detected = detect(text, [*sources, into])[0]
        if detected.language == into and detected.confidence < SURE:
            detected = detect(text, sources or None)[0]
    if (detected.language, into) in models.directions:
        return Direction(detected, into, models.translator(None, detected.language, into))
    is_same = source == AUTO or standard_code(source) == standard_code(target)  # "en-US" is not "en-GB"
    if is_same and detected.language == into and text is not None:
        return Direction(detected, into, None)
    raise HTTPError(
        400,
        f"{name_of(into)} ({into}) is not available as a target language from "
        f"{name_of(detected.language)} ({detected.language})",
    )


def _languages(models: Models) -> list[str]:
    """Return every source or target language of the service."""
    return list(dict.fromkeys(language for pair in models.directions for language in pair))


def _detected(guess: Detected) -> schemas.LibreDetection:
    """Return a language in LibreTranslate's format, with a confidence from 0 to 100."""
    return schemas.LibreDetection(confidence=round(100 * guess.confidence, 1), language=guess.language)


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
    if request.headers.get("Content-Type", "").lower().startswith("application/x-www-form-urlencoded"):
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


def required(fields: dict[str, Any], name: str) -> str:
    """Return a required field. HTTPError: it is missing, or not a string (400)."""
    value = fields.get(name)
    if not value:
        raise HTTPError(400, f"Invalid request: missing {name} parameter")
    if not isinstance(value, str):
        raise HTTPError(400, f"Invalid request: {name} parameter is not a text")
    return value


def _texts(fields: dict[str, Any]) -> list[str]:
    """Return the texts in `q`, a string or a list."""
    q = fields.get("q")
    if not q:
        raise HTTPError(400, "Invalid request: missing q parameter")
    texts = q if isinstance(q, list) else [q]
    for text in texts:
        if not isinstance(text, str):
            raise HTTPError(400, "Invalid request: q parameter is not a text, nor a list of texts")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            message = "Invalid request: q parameter holds half of a surrogate pair, which is no text"
            raise HTTPError(400, message) from error
    return texts


def _n_alternatives(fields: dict[str, Any], service: Service) -> int:
    value = fields.get("alternatives")
    if value is None:
        return 0
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,9}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1:
        raise HTTPError(400, "Invalid request: alternatives parameter is not a number")
    n = max(0, int(value))
    most = service.config.limits.beam_size - 1
    if n > most:
        raise HTTPError(400, f"Invalid request: alternatives parameter must be <= {most}")
    return n


def shown(value: Any) -> str:
    """Return a client's text for a message: on one line, truncated."""
    return " ".join(str(value).encode("utf-8", "replace").decode().split())[:MAX_SHOWN]
