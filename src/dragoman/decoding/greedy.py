"""Greedy search: choose the most probable token at each step."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dragoman.decoding.hypotheses import Hypothesis, NextToken, Paths, best_tokens


@torch.no_grad()
def greedy_search(
    step: NextToken,
    *,
    max_lengths: Sequence[int],
    bos_id: int,
    eos_id: int,
    length_penalty: float = 1.0,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Return one hypothesis per sentence, each in its own list: the result of `beam_search` with beam size 1.

    Sentence i has at most `max_lengths[i]` tokens. Then eos is forced, and its log-probability counts like
    any other. Ties go to the lowest token id. If every token has log-probability -inf, the sentence ends
    with a log_prob of -inf. `length_penalty` (alpha) affects only the score. `step` is called with tensors
    on `device`.

    Raises:
        RunError: a log-probability is NaN.
    """
    limits = torch.tensor(max_lengths, dtype=torch.long)
    assert (limits >= 0).all()
    paths = Paths(length_penalty)
    sentences = parents = torch.arange(len(limits))  # (N,)
    last = torch.full_like(sentences, bos_id)
    log_prob = torch.zeros(len(limits), dtype=torch.float64)
    while len(sentences):
        paths.extend(last, parents)
        log_probs = step(last.to(device), parents.to(device))  # (N, V)
        values, tokens = (best[:, 0] for best in best_tokens(log_probs, 1))
        at_limit = limits == paths.n_tokens
        if at_limit.any():
            tokens = torch.where(at_limit, eos_id, tokens)
            values = torch.where(at_limit, log_probs[:, eos_id].cpu().double(), values)
        log_prob = log_prob + values

        ended = (tokens == eos_id) | (values == -torch.inf)
        paths.end(sentences[ended], ended.nonzero()[:, 0], log_prob[ended])
        parents = (~ended).nonzero()[:, 0]
        sentences, limits, log_prob, last = (x[parents] for x in (sentences, limits, log_prob, tokens))
    return paths.hypotheses(len(max_lengths), n_best=1)
