"""Laws of a flow: anyone who drives it, whatever is asked for together, and the rules of a request."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from anyio import CapacityLimiter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.config import SearchConfig
from dragoman.errors import DataError
from dragoman.predict.flow import (
    ComputeStep,
    Flow,
    Pivot,
    Source,
    TranslationRequest,
    aligned,
    translated,
)
from dragoman.predict.glossary import Glossary
from dragoman.predict.protection import Protection
from dragoman.predict.results import Link, Translation
from dragoman.predict.threads import finish
from dragoman.predict.translator import Translator
from dragoman.serving.batching import Batcher, Client
from dragoman.text.spans import words_of

WORDS = ["red", "cat", "Big", "HOUSE", "12.50", "<b>", "</b>", "a@b.org", "😀", ",", ".", "日本"]
PIECES = [*WORDS, "old " * 60]
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=7).map(" ".join), min_size=1, max_size=4)
REQUESTS = st.builds(
    TranslationRequest,
    settings=st.sampled_from([{}, {"beam_size": 3}, {"method": "sampling", "seed": 5, "beam_size": 2}]),
    n_best=st.integers(1, 2),
    protection=st.sampled_from([None, Protection(), Protection(["tags"], ["cat|red"])]),
)  # fmt: skip
Drive = Callable[[Flow[Any]], Any]


def for_a_client(threads: CapacityLimiter | None = None) -> Drive:
    """A flow among those of others, its code run in `threads`."""

    def drive(flow: Flow[Any]) -> Any:
        batcher = Batcher(n_threads=2, max_items=3, max_tokens=200)
        try:
            return asyncio.run(Client(batcher).finish(flow, threads))
        finally:
            batcher.close()

    return drive


def both(
    model: Source, texts: Sequence[str], request: TranslationRequest
) -> Flow[tuple[list[Translation], list[list[Link]]]]:
    translations = yield from translated(model, texts, request)
    return translations, (yield from aligned(model, translations))


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(texts=TEXTS, request=REQUESTS, through=st.booleans())
def test_every_driver_comes_to_the_same_and_links_join_words_of_the_texts_as_they_were_given(
    translator: Translator, texts: list[str], request: TranslationRequest, through: bool
) -> None:
    model: Source = Pivot(translator, translator) if through else translator
    drivers: list[Drive] = [finish, for_a_client(), for_a_client(CapacityLimiter(1))]
    (first, links), *others = [drive(both(model, texts, request)) for drive in drivers]
    assert [translation.source for translation in first] == texts
    for translations, other_links in others:
        assert [[t.text, t.outcome, t.through] for t in translations] == [
            [t.text, t.outcome, t.through] for t in first
        ]
        assert [[link[:4] for link in each] for each in other_links] == [
            [link[:4] for link in each] for each in links
        ]
    for translation, each in zip(first, links, strict=True):
        for link in each:
            assert (link.source_start, link.source_end) in words_of(translation.source)
            assert translation.text[link.target_start : link.target_end].strip()


def test_terms_are_required_of_what_the_model_reads(translator: Translator) -> None:
    terms = Glossary([("red cat", "rot Katze")])
    request = TranslationRequest(glossary=terms, protection=Protection(["tags"]))
    (translation,) = finish(translated(translator, ["a <b>red</b> cat"], request))
    assert "rot Katze" in translation.text.replace("<b>", "").replace("</b>", "")


@pytest.mark.parametrize("drive", [finish, for_a_client()], ids=["threads", "client"])
def test_a_step_that_fails_ends_its_flow(drive: Drive) -> None:
    seen: list[str] = []

    def fail(_: Sequence[object]) -> list[object]:
        raise DataError("no")

    def flow() -> Flow[None]:
        try:
            yield ComputeStep(fail, [1], [1])
            seen.append("went on")
        finally:
            seen.append("closed")

    with pytest.raises(DataError, match="no"):
        drive(flow())
    assert seen == ["closed"]


# What a request says


@given(n_best=st.integers(1, 30), beam_size=st.integers(1, 30), own=st.integers(1, 30), keep=st.booleans())
def test_a_beam_that_is_not_given_holds_all_alternatives(
    n_best: int, beam_size: int, own: int, keep: bool
) -> None:
    request = TranslationRequest(n_best=n_best, protection=Protection(["numbers"]) if keep else None)
    found = request.search(SearchConfig(beam_size=own))
    assert found["beam_size"] == max(own, n_best)
    assert found["n_best"] == (found["beam_size"] if keep else n_best)
    SearchConfig(beam_size=own).changed(found, where="test")  # the settings fit together
    given_beam = TranslationRequest(n_best=n_best, settings={"beam_size": beam_size})
    assert given_beam.search(SearchConfig(beam_size=own))["beam_size"] == beam_size
    sampled = SearchConfig(method="sampling", beam_size=own)
    assert request.search(sampled)["beam_size"] == own, "samples do not widen a beam"
    others = TranslationRequest(settings={"beam_size": None, "top_k": 5, "seed": None})
    assert others.search(SearchConfig(beam_size=own)) == {"top_k": 5, "beam_size": own, "n_best": 1}
