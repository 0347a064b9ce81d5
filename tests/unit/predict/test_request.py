"""The rules of a request for translations, which hold for every caller."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import SearchConfig
from dragoman.errors import ConfigError
from dragoman.predict.flow import MOST_CANDIDATES, TranslationRequest
from dragoman.predict.protection import Protection

OWN = SearchConfig(beam_size=4)
NUMBERS = Protection(("numbers",))


def search(own: SearchConfig = OWN, **request: object) -> tuple[int, int]:
    """Beam and alternatives of a request."""
    settings = TranslationRequest(**request).search(own)  # type: ignore[arg-type]
    return settings["beam_size"], settings["n_best"]


@given(n_best=st.integers(1, 30), beam_size=st.integers(1, 30), own=st.integers(1, 30), keep=st.booleans())
def test_a_beam_that_is_not_given_holds_all_alternatives(
    n_best: int, beam_size: int, own: int, keep: bool
) -> None:
    request = TranslationRequest(n_best=n_best, protection=NUMBERS if keep else None)
    found = request.search(SearchConfig(beam_size=own))
    assert found["beam_size"] == max(own, n_best)
    assert found["n_best"] == (found["beam_size"] if keep else n_best)
    SearchConfig(beam_size=own).changed(found, where="test")  # the settings fit together
    given_beam = TranslationRequest(n_best=n_best, settings={"beam_size": beam_size})
    assert given_beam.search(SearchConfig(beam_size=own))["beam_size"] == beam_size


def test_a_setting_that_is_none_is_the_runs_own_and_others_are_passed_on() -> None:
    request = TranslationRequest(settings={"beam_size": None, "top_k": 5, "seed": None})
    assert request.search(OWN) == {"top_k": 5, "beam_size": 4, "n_best": 1}


def test_samples_do_not_widen_a_beam() -> None:
    assert search(n_best=9, settings={"method": "sampling"}) == (4, 9)
    assert search(SearchConfig(method="sampling", beam_size=2), n_best=9) == (2, 9)


def test_consensus_chooses_among_the_alternatives_or_the_whole_beam() -> None:
    assert search(consensus=True) == (4, 4)
    assert search(consensus=True, n_best=3) == (4, 3)
    assert search(consensus=True, n_best=7) == (7, 7)
    assert search(consensus=True, n_best=3, protection=NUMBERS) == (4, 3)


def test_consensus_needs_two_candidates_and_has_a_limit() -> None:
    with pytest.raises(ConfigError, match="--mbr chooses among candidates"):
        search(consensus=True, settings={"beam_size": 1})
    assert search(consensus=True, n_best=MOST_CANDIDATES)[1] == MOST_CANDIDATES
    with pytest.raises(ConfigError, match="give 1,000 at most"):
        search(consensus=True, n_best=MOST_CANDIDATES + 1)
