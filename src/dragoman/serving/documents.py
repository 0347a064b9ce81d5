"""Documents over HTTP: one comes in, one of the same format goes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Depends, File, Form, Request, Response, UploadFile

from dragoman.documents import FORMATS, DocumentFile
from dragoman.errors import DataError
from dragoman.serving.batching import Client
from dragoman.serving.downloads import MAX_STEM, safe_name
from dragoman.serving.errors import PROBLEMS, too_much
from dragoman.serving.models import Models, ServedTranslator
from dragoman.serving.service import Service, admitted, service_of
from dragoman.text.detection import detect
from dragoman.text.languages import known

MEDIA_TYPES = {
    ".txt": "text/plain",
    ".srt": "application/x-subrip",
    ".tmx": "application/xml",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".html": "text/html",
}

AUTO = "auto"
"""Source language of a request whose language is to be detected."""

router = APIRouter(prefix="/v1")


class DocumentRequest(NamedTuple):
    """A document to translate."""

    name: str
    """Made safe by `safe_name`."""
    content: bytes
    model: str | None = None
    source: str | None = None
    """A language, "auto", or None."""
    target: str | None = None


class Translated(NamedTuple):
    """A translated document."""

    name: str
    """With the language before the ending."""
    content: bytes


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
    translated = await translate_document(request, service_of(request), asked)
    return attachment(translated.name, translated.content)


async def translate_document(request: Request, service: Service, asked: DocumentRequest) -> Translated:
    """Translate a document.

    Raises:
        DataError: it is damaged, its format is unknown, or there is no model for it.
        HTTPError: it is too large, or takes too long.
        MissingExtraError: a package for its format is not installed.
    """
    limits = service.config.limits
    if len(asked.content) > limits.file_bytes:
        raise too_much("bytes", len(asked.content), limits.file_bytes, "file_bytes")
    service.expect(1)

    def work(client: Client) -> Translated:
        with service.document_turn(client):
            return translated(client)

    def translated(client: Client) -> Translated:
        served, document = opened(service.models, asked, client)
        n_characters, n_sentences = document.n_characters, len(document.sentences)
        name = served.info.name
        request.state.model, request.state.characters = name, n_characters
        request.state.sentences = n_sentences
        service.metrics.characters.labels(name).inc(n_characters)
        if n_characters > limits.file_characters:
            raise too_much("characters", n_characters, limits.file_characters, "file_characters")
        service.metrics.sentences.labels(name).inc(n_sentences)
        content = document.translated(served.for_client(client), align=partial(served.align, client))
        return Translated(_in_language(asked.name, served.languages[1]), content)

    return await service.run(request, work, seconds=limits.file_seconds, in_thread=True)


def _in_language(name: str, language: str) -> str:
    """Return the name of a document in another language: "letter.de.docx"."""
    path = PurePath(name)
    return safe_name(f"{path.stem[: MAX_STEM - len(language) - 1]}.{language}{path.suffix}")


def opened(models: Models, asked: DocumentRequest, client: Client) -> tuple[ServedTranslator, DocumentFile]:
    """Return the model for a document, and the document.

    Raises:
        DataError: it is damaged or too large, or there is no model for it.
        GoneError: the client has left.
    """
    source = asked.source
    if source == AUTO:
        read = partial(_text, asked, client)
        source = resolve_auto(models, read, name=asked.model, target=asked.target)
    served = models.translator(asked.model, source, asked.target)
    return served, DocumentFile.read(asked.name, asked.content, served.languages, check=client.go_on)


def _text(asked: DocumentRequest, client: Client, directions: Sequence[tuple[str, str]]) -> str:
    """Return the sentences of a document, as the first of `directions` reads it that can."""
    problem: DataError | None = None
    for languages in directions:  # a translation memory can only be read in the languages that it has
        try:
            document = DocumentFile.read(asked.name, asked.content, languages, check=client.go_on)
        except DataError as error:
            problem = problem or error
        else:
            return " ".join(document.sentences)
    assert problem is not None
    raise problem


def attachment(name: str, content: bytes) -> Response:
    """Return a file that a browser saves as `name`, in any script (RFC 6266, RFC 5987)."""
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    headers: dict[str, Any] = {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Type": MEDIA_TYPES.get(PurePath(name).suffix.lower(), "application/octet-stream"),
        "Cache-Control": "no-store",
    }
    return Response(content, headers=headers)


def resolve_auto(
    models: Models,
    read: Callable[[Sequence[tuple[str, str]]], str],
    *,
    name: str | None = None,
    target: str | None = None,
) -> str:
    """Detect the source language of a request, among those of the models that may answer it.

    These are the models of this `name` that translate into `target`; None = any. `read` returns the text,
    given their directions. It is called only if there are several languages.

    DataError: there is no such model. Other errors: those of `read`.
    """
    answering = [model.languages for model in models.translators if name in (None, model.info.name)]
    into = target and known(target, (language for _, language in answering))
    directions = [pair for pair in dict.fromkeys(answering) if target is None or pair[1] == into]
    languages = list(dict.fromkeys(source for source, _ in directions))
    if not languages:
        return models.translator(name, None, target).languages[0]  # complains
    return languages[0] if len(languages) == 1 else detect(read(directions), languages)[0].language
