"""Documents over HTTP: one comes in, one of the same format goes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import PurePath
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Depends, File, Form, Request, Response, UploadFile

from dragoman.documents import FORMATS, DocumentFile
from dragoman.errors import DataError
from dragoman.predict.flow import Flow
from dragoman.predict.request import TranslationRequest
from dragoman.serving.batching import Client
from dragoman.serving.downloads import MAX_STEM, safe_name
from dragoman.serving.errors import PROBLEMS, too_much
from dragoman.serving.models import Models, ServedTranslator
from dragoman.serving.service import Service, admitted, service_of
from dragoman.text.languages import detect, known

MEDIA_TYPES = {
    ".txt": "text/plain",
    ".srt": "application/x-subrip",
    ".tmx": "application/xml",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    **dict.fromkeys((".html", ".htm"), "text/html"),
}

AUTO = "auto"
"""Source language of a request whose language is to be detected."""

router = APIRouter(prefix="/v1", tags=["dragoman"], generate_unique_id_function=attrgetter("name"))


class DocumentRequest(NamedTuple):
    """A document to translate."""

    name: str
    """Made safe by `safe_name`."""
    content: bytes
    model: str | None = None
    source: str | None = None
    """A language, "auto", or None."""
    target: str | None = None


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
    asked = DocumentRequest(safe_name(file.filename or ""), await file.read(), model, source, target)
    return attachment(*await translate_document(request, service_of(request), asked))


async def translate_document(request: Request, service: Service, asked: DocumentRequest) -> tuple[str, bytes]:
    """Translate a document; return its name, with the language before the ending, and its content.

    Raises:
        DataError: it is damaged, its format is unknown, or there is no model for it.
        HTTPError: it is too large, or takes too long.
        MissingExtraError: a package for its format is not installed.
    """
    limits = service.config.limits
    if len(asked.content) > limits.file_bytes:
        raise too_much("bytes", len(asked.content), limits.file_bytes, "file_bytes")
    service.expect(1)

    def work(client: Client) -> Flow[tuple[str, bytes]]:
        read = partial(_text, asked, client)
        served = chosen(service.models, read, asked.model, asked.source, asked.target)
        document = _document(asked, served.languages, client)
        n_characters, n_sentences = document.n_characters, len(document.sentences)
        name = served.info.name
        request.state.model, request.state.characters = name, n_characters
        request.state.sentences = n_sentences
        service.metrics.characters.labels(name).inc(n_characters)
        if n_characters > limits.file_characters:
            raise too_much("characters", n_characters, limits.file_characters, "file_characters")
        service.metrics.sentences.labels(name).inc(n_sentences)
        translations = yield from document.translations(served.translator, TranslationRequest())
        content = document.written([translation.text for translation in translations])
        path, language = PurePath(asked.name), served.languages[1]
        return safe_name(f"{path.stem[: MAX_STEM - len(language) - 1]}.{language}{path.suffix}"), content

    return await service.run(request, work, seconds=limits.file_seconds, is_document=True)


def _document(asked: DocumentRequest, languages: tuple[str, str], client: Client) -> DocumentFile:
    return DocumentFile.read(asked.name, asked.content, languages, check=client.go_on)


def _text(asked: DocumentRequest, client: Client, directions: Sequence[tuple[str, str]]) -> str:
    """Return the sentences of a document, as the first of `directions` reads it that can."""
    for languages in directions:  # a translation memory can only be read in the languages that it has
        with suppress(DataError):
            return " ".join(_document(asked, languages, client).sentences)
    return " ".join(_document(asked, directions[0], client).sentences)  # complains


def attachment(name: str, content: bytes) -> Response:
    """Return a file that a browser saves as `name`, in any script (RFC 6266, RFC 5987)."""
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    headers: dict[str, Any] = {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Type": MEDIA_TYPES.get(PurePath(name).suffix.lower(), "application/octet-stream"),
        "Cache-Control": "no-store",
    }
    return Response(content, headers=headers)


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
        answering = [model.languages for model in models.translators if name in (None, model.info.name)]
        into = target and known(target, (language for _, language in answering))
        directions = [pair for pair in dict.fromkeys(answering) if target is None or pair[1] == into]
        languages = list(dict.fromkeys(language for language, _ in directions))
        source = languages[0] if languages else None
        if len(languages) > 1:
            source = detect(read(directions), languages)[0].language
    return models.translator(name, source, target)
