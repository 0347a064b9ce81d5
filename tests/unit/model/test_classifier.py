"""The classifier's model and its batches: nothing of a text is lost, and nothing else is seen."""

from typing import Any

import numpy as np
import pytest
import torch

from dragoman.config import ClassifierConfig
from dragoman.data.document_batching import Documents, lay_out, plan_by_length, plan_documents
from dragoman.model.classifier import NgramVotes, TransformerClassifier, pool
from dragoman.model.kernels import FAST, PLAIN
from dragoman.model.ngrams import (
    LENGTH,
    MIX,
    SPREAD,
    NgramBags,
    bags_of_ngrams,
    hash_ngrams,
    of_older_run,
)
from dragoman.model.windows import windows_needed
from dragoman.predict.networks import fill
from dragoman.tensors import of_tensors, to_tensors

SETTINGS: dict[str, Any] = {
    "d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "dropout": 0.0, "max_positions": 16,
}  # fmt: skip


def make_model(*, kernels: Any = PLAIN, **settings: Any) -> TransformerClassifier:
    torch.manual_seed(0)
    config = ClassifierConfig(**(SETTINGS | settings))
    model = TransformerClassifier(config, vocab_size=50, n_classes=3, kernels=kernels)
    torch.nn.init.normal_(model.head.weight)
    return model.eval()


def documents(*texts: list[int], max_length: int = 4) -> Documents:
    tokens = np.concatenate([np.array(text, dtype=np.int64) for text in texts])
    return lay_out(tokens, np.array([len(text) for text in texts]), max_length=max_length)


def logits(model: TransformerClassifier, laid_out: Documents) -> torch.Tensor:
    with torch.no_grad():
        return model(laid_out.ids, laid_out.real, laid_out.document, laid_out.n_documents)


TEXTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13, 14, 15, 16, 17], [4, 5, 6, 7, 8]]
TOKENS = np.concatenate([np.array(text) for text in TEXTS])
POOLINGS = ["mean", "max", "mean+max"]


# Windows


def test_windows_tile_a_text_and_differ_by_a_token_at_most() -> None:
    for max_length in range(1, 12):
        laid_out = documents(*TEXTS, max_length=max_length)
        widths = laid_out.real.sum(1)
        for i, text in enumerate(TEXTS):
            rows = laid_out.document == i
            assert laid_out.ids[rows][laid_out.real[rows]].tolist() == text
            assert widths[rows].max() - widths[rows].min() <= 1
            assert widths[rows].max() <= max_length
            assert rows.sum() == -(-len(text) // max_length)  # the fewest that hold it
    assert windows_needed(np.array([0, 1, 4, 5, 9]), max_length=4).tolist() == [1, 1, 1, 2, 3]


# The model


@pytest.mark.parametrize("kernels", [PLAIN, FAST], ids=["plain", "fast"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_other_texts_in_the_batch_change_nothing(pooling: str, kernels: Any) -> None:
    model = make_model(pooling=pooling, kernels=kernels)
    together = logits(model, documents(*TEXTS))
    for row, text in zip(together, TEXTS, strict=True):
        torch.testing.assert_close(logits(model, documents(text))[0], row)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_changes_nothing(pooling: str) -> None:
    model = make_model(pooling=pooling)
    laid_out = documents(*TEXTS)
    wider = laid_out._replace(ids=torch.nn.functional.pad(laid_out.ids, (0, 3)))
    torch.testing.assert_close(logits(model, wider), logits(model, laid_out))


@pytest.mark.parametrize("pooling", ["mean", "mean+max"])
def test_every_token_of_every_window_takes_part(pooling: str) -> None:
    """The gradient of the logits reaches the embedding of each token, also in the last window."""
    model = make_model(pooling=pooling)
    laid_out = documents(list(range(10, 30)), max_length=4)
    model(laid_out.ids, laid_out.real, laid_out.document, 1).square().sum().backward()
    gradient = model.embedding.tokens.weight.grad
    assert gradient is not None
    assert (gradient[10:30].abs().sum(1) > 0).all()


def test_attention_does_not_cross_windows_and_pooling_does() -> None:
    """Two windows of one text encode as two texts do; pooled over both, they give another vector."""
    model = make_model(pooling="mean")
    text = [5, 6, 7, 8, 9, 10, 11, 12]
    one, two = documents(text), documents(text[:4], text[4:])
    assert torch.equal(one.ids, two.ids)
    encoded = [model.encode_embedded(model.embedding(d.ids, dtype=torch.float32), d.real) for d in (one, two)]
    torch.testing.assert_close(encoded[0], encoded[1])
    torch.testing.assert_close(logits(model, one)[0], logits(model, two).mean(0))  # equally long windows


def test_pooling_is_the_mean_and_the_maximum_of_the_real_tokens() -> None:
    torch.manual_seed(1)
    laid_out = documents(*TEXTS)
    encoded = torch.randn(*laid_out.ids.shape, 6)
    for name, expected in (("mean", lambda rows: rows.mean(0)), ("max", lambda rows: rows.amax(0))):
        pooled = pool(name, encoded, laid_out.real, laid_out.document, len(TEXTS))
        for i in range(len(TEXTS)):
            rows = encoded[laid_out.real & (laid_out.document == i)[:, None]]
            torch.testing.assert_close(pooled[i], expected(rows))
    assert make_model(pooling="mean+max").head.in_features == 2 * make_model(pooling="mean").head.in_features


def test_bf16_is_close_to_fp32() -> None:
    model = make_model()
    exact = logits(model, documents(*TEXTS))
    model.dtype = torch.bfloat16
    rounded = logits(model, documents(*TEXTS))
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, rtol=0.1, atol=0.1)


# The plan of an epoch


LENGTHS = np.random.default_rng(0).integers(1, 90, 500)


def plan(**changes: Any) -> list[np.ndarray]:
    settings = {"max_length": 20, "batch_tokens": 300, "seed": 1, "epoch": 0} | changes
    return plan_documents(LENGTHS, **settings)


def test_every_text_is_in_one_batch() -> None:
    assert sorted(np.concatenate(plan()).tolist()) == list(range(500))
    by_length = plan_by_length(LENGTHS, max_length=20, batch_tokens=300)
    assert sorted(np.concatenate(by_length).tolist()) == list(range(500))
    assert plan_by_length(LENGTHS[:0], max_length=20, batch_tokens=300) == [], "nothing to predict"


def test_a_batch_holds_no_more_tokens_than_asked_for_unless_it_is_one_text() -> None:
    for batch in [*plan(), *plan_by_length(LENGTHS, max_length=20, batch_tokens=300)]:
        windows = windows_needed(LENGTHS[batch], max_length=20)
        width = max(-(-LENGTHS[batch] // windows))
        assert len(batch) == 1 or windows.sum() * width <= 300
        laid_out = lay_out(np.ones(LENGTHS[batch].sum()), LENGTHS[batch], max_length=20)
        assert tuple(laid_out.ids.shape) == (windows.sum(), width)
    assert [len(b) for b in plan(batch_tokens=1)] == [1] * 500


def test_the_plan_follows_from_seed_and_epoch() -> None:
    def lists(**changes: Any) -> list[list[int]]:
        return [batch.tolist() for batch in plan(**changes)]

    assert lists() == lists()
    assert lists() != lists(epoch=1)
    assert lists() != lists(seed=2)


def test_little_of_a_batch_is_padding() -> None:
    batches = [lay_out(np.ones(LENGTHS[b].sum()), LENGTHS[b], max_length=20) for b in plan()]
    padded = sum(batch.ids.numel() for batch in batches)
    assert LENGTHS.sum() / padded > 0.9


# The votes of n-grams


def reference_bucket(ngram: list[int], *, bits: int) -> int:
    """The bucket of one n-gram in Python's integers, which do not overflow."""
    mixed = 0
    for token in reversed(ngram):
        mixed = (mixed + token + 1) * MIX % 2**64
        mixed ^= mixed >> 29
    return ((mixed * SPREAD + len(ngram) * LENGTH) % 2**64) >> (64 - bits)


def test_each_token_ends_an_ngram_of_each_length() -> None:
    buckets = hash_ngrams(TOKENS, np.array([3, 1, 9, 5]), longest=3, bits=40)
    rows = iter(buckets.tolist())
    for text in TEXTS:
        for end in range(1, len(text) + 1):
            padded = [0, 0, *text[:end]]
            assert next(rows) == [reference_bucket(padded[-n:], bits=40) for n in (1, 2, 3)]


def test_buckets_are_spread_evenly() -> None:
    tokens = np.arange(20000)
    buckets = hash_ngrams(tokens, np.array([20000]), longest=2, bits=6)
    for column in buckets.T:
        counts = np.bincount(column, minlength=64)
        assert len(counts) == 64
        assert np.abs(counts - 20000 / 64).max() < 6 * (20000 / 64) ** 0.5


def wide_config(**settings: Any) -> ClassifierConfig:
    return ClassifierConfig(**(SETTINGS | {"ngrams": 2, "ngram_bits": 8} | settings))


def test_a_bag_holds_each_bucket_once_a_text() -> None:
    bags = bags_of_ngrams(np.array([5, 5, 5, 6]), np.array([3, 1]), wide_config())
    first = {(5,), (0, 5), (5, 5)}
    buckets = [{reference_bucket(list(ngram), bits=8) for ngram in text} for text in (first, {(6,), (0, 6)})]
    assert bags.counts.tolist() == [len(text) for text in buckets]
    assert bags.buckets.tolist() == [bucket for text in buckets for bucket in sorted(text)]


def test_votes_are_summed_text_by_text() -> None:
    """And divided by the square root of their number, by the definition."""
    votes = NgramVotes(wide_config(), n_classes=3)
    torch.nn.init.normal_(votes.table)
    torch.nn.init.normal_(votes.bias)
    bags = [[1, 2, 9], [7], [3, 4]]
    together = NgramBags(np.concatenate(bags), np.array([len(bag) for bag in bags]))
    expected = [votes.table[bag].sum(0) / len(bag) ** 0.5 + votes.bias for bag in bags]
    torch.testing.assert_close(votes(together), torch.stack(expected))


def test_votes_and_encoder_are_mixed_and_one_without_a_share_is_not_computed() -> None:
    model, laid_out, bags = wide_model()
    assert model.votes is not None
    model.mixture.data = torch.tensor([2.0, 0.5])
    with torch.no_grad():
        both = model(laid_out.ids, laid_out.real, laid_out.document, 4, bags)
        expected = 2.0 * model.votes(bags) + 0.5 * laid_out.read(model)
    torch.testing.assert_close(both, expected)
    model.mixture.data = torch.tensor([1.0, 0.0])
    model.encoder = torch.nn.ModuleList([torch.nn.Identity()])  # which would be called with two arguments
    with torch.no_grad():
        found = model(laid_out.ids, laid_out.real, laid_out.document, 4, bags)
        torch.testing.assert_close(found, model.votes(bags))


def wide_model() -> tuple[TransformerClassifier, Documents, NgramBags]:
    """A model whose votes and head are random, and some texts."""
    model = make_model(ngrams=2, ngram_bits=8)
    assert model.votes is not None
    torch.nn.init.normal_(model.votes.table)
    torch.nn.init.normal_(model.votes.bias)
    torch.nn.init.normal_(model.head.weight)
    return model, documents(*TEXTS), bags_of_ngrams(TOKENS, np.array([3, 1, 9, 5]), model.config)


def test_weights_of_version_0_1_vote_as_they_did() -> None:
    """There a bucket's vote was its ratio times a learnt weight, times a rate and a learnt scale."""
    model, laid_out, bags = wide_model()
    config = model.config
    ratio, weight = torch.randn(2, 2**8, model.n_classes)
    theirs = {name: p for name, p in model.named_parameters() if not name.startswith(("votes.", "mixture"))}
    theirs |= {"votes.ratio": ratio, "votes.weight.weight": weight, "votes.log_scale": torch.tensor(-1.5)}
    fill(model, to_tensors(of_older_run(of_tensors(theirs), config)), where="weights")
    buckets = np.split(bags.buckets, np.cumsum(bags.counts)[:-1])
    sums = [(ratio * weight)[bucket].sum(0) / len(bucket) ** 0.5 for bucket in buckets]
    scale = config.ngram_rate * torch.tensor(-1.5).exp()
    with torch.no_grad():
        expected = laid_out.read(model) + scale * torch.stack(sums)
        torch.testing.assert_close(laid_out._replace(ngrams=bags).logits(model), expected)


def test_votes_are_saved_and_not_learnt() -> None:
    model = make_model(ngrams=2, ngram_bits=8)
    names = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    assert not any(names[name] for name in ("votes.table", "votes.bias", "mixture"))
