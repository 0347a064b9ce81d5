"""Search over a next-token function: it knows no network, so that it can be checked on a table."""

from __future__ import annotations

from dragoman.decoding.beam import beam_search
from dragoman.decoding.greedy import greedy_search
from dragoman.decoding.hypotheses import Hypothesis, NextToken, length_penalty

__all__ = ["Hypothesis", "NextToken", "beam_search", "greedy_search", "length_penalty"]
