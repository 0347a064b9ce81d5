"""Search over a next-token function, independent of any network, so that it can be tested on tables."""

from __future__ import annotations

from dragoman.decoding.beam import beam_search
from dragoman.decoding.hypotheses import Hypothesis, NextToken, ScoreTerm, length_penalty
from dragoman.decoding.phrases import Phrases
from dragoman.decoding.sampling import sample
from dragoman.decoding.search import greedy_search
from dragoman.decoding.watching import WatchedSearch, Watcher
from dragoman.decoding.wrappers import (
    AttendingEnsemble,
    AttendingStep,
    Coverage,
    Ensemble,
    ForcedPrefix,
    NoRepeatedNgrams,
)

__all__ = [
    "AttendingEnsemble",
    "AttendingStep",
    "Coverage",
    "Ensemble",
    "ForcedPrefix",
    "Hypothesis",
    "NextToken",
    "NoRepeatedNgrams",
    "Phrases",
    "ScoreTerm",
    "WatchedSearch",
    "Watcher",
    "beam_search",
    "greedy_search",
    "length_penalty",
    "sample",
]
