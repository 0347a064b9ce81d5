"""Flows in tests: with answers in place of a model's, and for a client of the service."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from dragoman.predict import flow
from dragoman.predict.results import Alternative, Link, Translation
from dragoman.serving.batching import Client

Answer = Callable[[Sequence[str]], list[Translation]]


def saying(answer: Callable[[str], str]) -> Answer:
    """Each text has one translation: what `answer` returns."""
    return lambda texts: [Translation(text, (Alternative(answer(text), 0.0),)) for text in texts]


@contextmanager
def answering(
    answer: Answer, links: Callable[[Sequence[Translation]], list[list[Link]]] | None = None
) -> Iterator[None]:
    """Within it, `answer` stands for every search, and `links` for every alignment."""

    def searched(model: object, texts: Sequence[str], *_: object, **__: object) -> Any:
        return answer(texts)
        yield

    def aligned(model: object, translations: Sequence[Translation]) -> Any:
        return [[] for _ in translations] if links is None else links(translations)
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "searched", searched)
        patch.setattr(flow, "aligned", aligned)
        yield


def results_of(client: Client, work: Any, items: Sequence[Any], costs: Sequence[int]) -> list[Any]:
    return [result.result() for result in client._batcher.submit(work, items, costs, client)]
