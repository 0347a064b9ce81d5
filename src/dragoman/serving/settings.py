"""What a service allows, and how it behaves: `dragoman serve --settings serve.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from dragoman.config import MAX_COUNT, MAX_ROWS, Section, parse_section, read_settings


class LimitsConfig(Section):
    """What a request may ask for. What is over a limit is refused, with the limit in the message."""

    characters: int = Field(default=20_000, ge=1, le=MAX_COUNT)
    """Of all texts of a request together."""
    sentences: int = Field(default=1000, ge=1, le=MAX_COUNT)
    """Of all texts of a request together."""
    body_bytes: int = Field(default=1 << 20, ge=1024, le=1 << 40)
    """Of a request that is no document."""
    file_bytes: int = Field(default=10 << 20, ge=1024, le=1 << 40)
    """Of a document."""
    buffered_bytes: int = Field(default=256 << 20, ge=1 << 20, le=1 << 40)
    """Of the bodies of all requests that a process is answering; requests beyond them get 429. Requests whose
    key may be in the body (LibreTranslate's) have an eighth of it, all together."""
    file_characters: int = Field(default=500_000, ge=1, le=MAX_COUNT)
    """Of the text in a document."""
    beam_size: int = Field(default=10, ge=1, le=100)
    """Hypotheses that a request may ask for, and alternatives."""
    seconds: float = Field(default=60.0, gt=0.0, le=1e7)
    """That a request may take, from its head to its answer."""
    file_seconds: float = Field(default=600.0, gt=0.0, le=1e7)
    """That a document may take."""
    kept_bytes: int = Field(default=256 << 20, ge=1 << 20, le=1 << 40)
    """Of translated documents that wait to be fetched (LibreTranslate's /download_file), all together; then
    the oldest go."""
    kept_seconds: float = Field(default=1800.0, gt=0.0, le=1e7)
    """For which such a document waits."""
    body_seconds: float = Field(default=20.0, gt=0.0, le=1e7)
    """In which the head of a request must be there; and, after that, its body, or the next part of it."""
    hung_seconds: float = Field(default=60.0, gt=0.0, le=1e7)
    """Without a sign of life, or progress of a computation, before a worker is replaced by another one. A
    service of one process answers /health with 503 then, for what watches it."""
    waiting_sentences: int = Field(default=4000, ge=1, le=MAX_COUNT)
    """Sentences that may wait to be translated; requests beyond them get 429."""
    requests: int = Field(default=256, ge=1, le=4096)
    """Worked on at once; the next ones are told to come later (429)."""
    documents: int = Field(default=4, ge=1, le=4096)
    """Worked on at once; the next ones wait. A document may take hundreds of times its size in memory."""
    connections: int = Field(default=1024, ge=1, le=1_000_000)
    """Open at once; what comes then is refused (503)."""
    per_minute: int = Field(default=0, ge=0, le=MAX_COUNT)
    """Requests a minute of a key that has no rate of its own, or of an address where there are no keys; 0:
    any number."""


class BatchingConfig(Section):
    """How sentences of several requests are decoded together."""

    sentences: int = Field(default=64, ge=1, le=MAX_ROWS)
    """In a batch, at most."""
    tokens: int = Field(default=1536, ge=1, le=MAX_COUNT)
    """In a batch, at most, padding included: how long a batch of long sentences may hold up others."""
    threads: int = Field(default=0, ge=0, le=4096)
    """Batches worked on at once; 0: one for each processor, shared among the workers. On a GPU always one."""


class ServeConfig(Section):
    """All of it."""

    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    batching: BatchingConfig = Field(default_factory=BatchingConfig)
    hosts: list[str] = Field(default_factory=list)
    """Names by which it may be called (the header Host). Empty: those of this machine, where only that can
    reach the service and there are no keys, so that no stranger's page can call it by a name made to mean
    this machine (DNS rebinding); else any."""
    cors_origins: list[str] = Field(default_factory=list)
    """Pages of other origins that may use the service, such as "https://example.org"; "*": all."""
    log_format: Literal["text", "json"] = "text"
    """A request in the log: as a line for people, or as an object."""
    log_text: bool = False
    """Whether the log holds what was translated."""
    behind_proxy: bool = False
    """Whether a proxy on this machine says whom a request is from (X-Forwarded-For)."""
    page: bool = True
    """Whether there is a page."""


def load_settings(path: Path | None, overrides: Sequence[str] = ()) -> ServeConfig:
    """The settings in the TOML file `path`, with `overrides` such as "limits.characters=50000" on top.

    ConfigError: the file is missing, is not TOML, or holds mistakes (all of them are in the message).
    """
    settings = {} if path is None else read_settings(path)
    return parse_section(ServeConfig, settings, overrides=overrides, where=str(path or "settings"))
