"""The log-probability of given translations."""

import math

import pytest
import torch

from dragoman.config import TokenizerConfig
from dragoman.errors import DataError
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.scoring import EMPTY, TOO_LONG, perplexity, score_pairs
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, TokenizerPair, train_tokenizer

SOURCES = ["red cat", "big old house", "", "small bird river tree", "blue dog"]
TARGETS = ["rot Katze", "groß alt Haus", "", "klein", "blau Hund blau Hund blau Hund"]


@torch.no_grad()
def test_log_probabilities_are_those_of_the_model_without_what_it_never_writes(
    translator: Translator,
) -> None:
    (scored,) = score_pairs(translator, ["red cat"], ["rot Katze"])
    src = torch.tensor([[*translator.tokenizers.src.encode("red cat"), EOS_ID]])
    ids = translator.tokenizers.tgt.encode("rot Katze")
    logits = translator.model(src, torch.ones_like(src, dtype=torch.bool), torch.tensor([[BOS_ID, *ids]]))[0]
    allowed = [i for i in range(logits.shape[1]) if i not in (PAD_ID, BOS_ID, UNK_ID)]
    tokens = scored.tokens(translator.tokenizers.tgt, "rot Katze")
    for t, (token, (_, log_prob)) in enumerate(zip([*ids, EOS_ID], tokens, strict=True)):
        row = logits[t].double()
        assert log_prob == pytest.approx(float(row[token] - row[allowed].logsumexp(0)), abs=1e-5)
    pieces = [token.piece for token in translator.tokenizers.tgt.tokens("rot Katze")]
    assert [piece for piece, _ in tokens] == [*pieces, "</s>"]
    assert scored.log_prob == pytest.approx(sum(value for _, value in tokens))


@pytest.mark.parametrize("batch_tokens", [1, 12, 4096])
def test_batches_do_not_change_the_scores(translator: Translator, batch_tokens: int) -> None:
    done: list[int] = []
    together = score_pairs(translator, SOURCES, TARGETS, batch_tokens=batch_tokens, progress=done.append)
    assert done == sorted(done)
    assert done[-1] == len(SOURCES)
    for source, target, pair in zip(SOURCES, TARGETS, together, strict=True):
        (alone,) = score_pairs(translator, [source], [target])
        assert alone.log_prob == pytest.approx(pair.log_prob, rel=1e-5)
        assert len(alone.log_probs) == len(pair.log_probs)


def test_an_empty_pair_has_no_tokens(translator: Translator) -> None:
    scored = score_pairs(translator, SOURCES, TARGETS)[2]
    assert (scored.log_probs, scored.log_prob) == ((), 0.0)
    assert score_pairs(translator, [], []) == []


@torch.no_grad()
def test_what_can_be_written_shares_the_whole_probability(translator: Translator) -> None:
    words = train_tokenizer(["a b c d"], TokenizerConfig(kind="words"))
    torch.manual_seed(1)
    n = words.vocab_size
    model = Seq2SeqTransformer(translator.config.model, src_vocab_size=n, tgt_vocab_size=n).eval()
    small = Translator.of([model], TokenizerPair(words, words), translator.config)
    firsts = [score_pairs(small, ["a b"], [word])[0].log_probs[0] for word in "abcd"]
    src = torch.tensor([[*words.encode("a b"), EOS_ID]])
    logits = model(src, torch.ones_like(src, dtype=torch.bool), torch.tensor([[BOS_ID]]))[0, 0]
    of_end = float(logits[EOS_ID] - logits[[EOS_ID, *words.encode("a b c d")]].logsumexp(0))
    assert math.fsum(map(math.exp, [*firsts, of_end])) == pytest.approx(1.0, abs=1e-5)

    (unknown,) = score_pairs(small, ["a b"], ["x"])
    with_unknown = logits[[EOS_ID, UNK_ID, *words.encode("a b c d")]]
    assert unknown.tokens(words, "x")[0][0] == "<unk>"
    assert unknown.log_probs[0] == pytest.approx(float(logits[UNK_ID] - with_unknown.logsumexp(0)))


def test_perplexity_of_certain_and_impossible_tokens() -> None:
    assert perplexity(0.0, 3) == perplexity(0.0, 0) == 1.0
    assert perplexity(-math.log(8.0), 3) == pytest.approx(2.0)
    assert perplexity(-math.inf, 1) == math.exp(700)


def test_pairs_that_cannot_be_scored_say_why(translator: Translator) -> None:
    sources, targets = ["red", "", "red", "red " * 600, "red"], [" ", "rot", "rot " * 600, "rot", "rot"]
    scored = score_pairs(translator, sources, targets)
    assert [score.fault for score in scored] == [EMPTY, EMPTY, TOO_LONG, TOO_LONG, ""]
    assert [bool(score.log_probs) for score in scored] == [False] * 4 + [True]
    with pytest.raises(DataError, match=r"1 sources and 0 targets; each needs its own"):
        score_pairs(translator, ["a"], [])
