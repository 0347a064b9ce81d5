"""Settings of a service: `dragoman serve --settings serve.toml`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from dragoman.config import MAX_COUNT, MAX_ROWS, Settings, parse_section, read_settings

_PORT = re.compile(r":\d*$", re.ASCII)


def host_name(host: str) -> str:
    """Return the value of a Host header without its port, in lower case."""
    return _PORT.sub("", host).lower()


class LimitsConfig(Settings):
    """Limits of requests. A request over a limit is refused; the message names the limit."""

    characters: int = Field(default=20_000, ge=1, le=MAX_COUNT)
    """Maximum characters of all texts of a request together."""
    sentences: int = Field(default=1000, ge=1, le=MAX_COUNT)
    """Maximum sentences of all texts of a request together."""
    body_bytes: int = Field(default=1 << 20, ge=1024, le=1 << 40)
    """Maximum bytes of a request without a document."""
    file_bytes: int = Field(default=10 << 20, ge=1024, le=1 << 40)
    """Maximum bytes of a document."""
    buffered_bytes: int = Field(default=256 << 20, ge=1 << 20, le=1 << 40)
    """Maximum bytes of the bodies of all running requests of a process; further requests get status 429.
    Requests whose key may be in the body (LibreTranslate's) share an eighth of it."""
    file_characters: int = Field(default=500_000, ge=1, le=MAX_COUNT)
    """Maximum characters of text in a document."""
    glossary_entries: int = Field(default=2000, ge=1, le=MAX_COUNT)
    """Maximum entries in the glossary of a request."""
    required_cost: int = Field(default=500_000, ge=1, le=MAX_COUNT)
    """Maximum cost of the required phrases of a sentence, those of the glossary included: their tokens ×
    hypotheses (one more than these tokens, or the beam size) × tokens of the longest translation."""
    beam_size: int = Field(default=10, ge=1, le=100)
    """Maximum beam size, and number of alternatives, of a request."""
    seconds: float = Field(default=60.0, gt=0.0, le=1e7)
    """Time limit of a request in seconds, from its headers to its response."""
    file_seconds: float = Field(default=600.0, gt=0.0, le=1e7)
    """Time limit of a document in seconds."""
    kept_bytes: int = Field(default=256 << 20, ge=1 << 20, le=1 << 40)
    """Maximum bytes of all translated documents kept for download (LibreTranslate's /download_file); the
    oldest are deleted first."""
    kept_seconds: float = Field(default=1800.0, gt=0.0, le=1e7)
    """Seconds to keep a translated document."""
    body_seconds: float = Field(default=20.0, gt=0.0, le=1e7)
    """Timeout in seconds for the headers of a request, then for each part of its body."""
    hung_seconds: float = Field(default=60.0, gt=0.0, le=1e7)
    """Seconds without progress or a sign of life before a worker is replaced. A service of one process
    answers /health with 503 instead, for the system that monitors it."""
    waiting_sentences: int = Field(default=4000, ge=1, le=MAX_COUNT)
    """Maximum queued sentences; further requests get status 429."""
    requests: int = Field(default=256, ge=1, le=4096)
    """Maximum requests processed at once; further ones get status 429."""
    documents: int = Field(default=4, ge=1, le=4096)
    """Maximum documents processed at once; further ones wait. A document may need hundreds of times its size
    in memory."""
    connections: int = Field(default=1024, ge=1, le=1_000_000)
    """Maximum open connections; further ones get status 503."""
    per_minute: int = Field(default=0, ge=0, le=MAX_COUNT)
    """Rate limit in requests per minute, for keys without one of their own and, if there are no keys, for
    each address; 0 = unlimited."""


class BatchingConfig(Settings):
    """Dynamic batching of sentences of several requests."""

    sentences: int = Field(default=64, ge=1, le=MAX_ROWS)
    """Maximum sentences in a batch."""
    tokens: int = Field(default=1536, ge=1, le=MAX_COUNT)
    """Maximum tokens in a batch, including padding; bounds the time that a batch blocks others."""
    threads: int = Field(default=0, ge=0, le=4096)
    """Batches computed at once; 0 = one per core, divided among the workers. A GPU always computes one."""


class ServeConfig(Settings):
    """All settings of a service."""

    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    batching: BatchingConfig = Field(default_factory=BatchingConfig)
    hosts: tuple[str, ...] = ()
    """Accepted values of the Host header. Empty = the names of this machine if the service listens on a
    loopback address without keys, which prevents DNS rebinding; else any."""
    cors_origins: tuple[str, ...] = ()
    """Origins of other pages that may use the service (CORS), such as "https://example.org"; "*" = all."""
    log_format: Literal["text", "json"] = "text"
    """Format of the log: lines for people, or one JSON object per line."""
    behind_proxy: bool = False
    """Whether to trust the sender's address from a proxy on this machine (X-Forwarded-For)."""
    page: bool = True
    """Whether to serve the web page."""

    @field_validator("hosts")
    @classmethod
    def _as_compared(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(host_name, hosts))


def load_settings(path: Path | None, overrides: Sequence[str] = ()) -> ServeConfig:
    """Load the settings of the TOML file `path`, with `overrides` such as "limits.characters=50000".

    ConfigError: the file is missing, is not TOML, or has errors (the message lists all of them).
    """
    settings = {} if path is None else read_settings(path)
    return parse_section(ServeConfig, settings, overrides=overrides, where=str(path or "settings"))
