"""A token store of many pairs, in one shard and in several."""

import numpy as np
import pytest

from dragoman.config import TokenizerConfig
from dragoman.data.corpora import open_corpus
from dragoman.data.store import SHARD_PAIRS, TokenStore
from dragoman.text.tokenizer import TokenizerPair


@pytest.fixture(
    scope="module",
    params=[SHARD_PAIRS, pytest.param(700, marks=pytest.mark.slow)],
    ids=["one shard", "eight shards"],
)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    """5000 pairs of 2 to about 40 tokens, targets about as long as their sources."""
    rng = np.random.default_rng(1)
    lengths = rng.gamma(4.0, 2.5, size=5000).astype(int) + 1
    pairs = [
        (" ".join(rng.choice(["a", "b", "c", "d"], n)), " ".join(rng.choice(["x", "y"], max(1, n + d))))
        for n, d in zip(lengths, rng.integers(-2, 3, size=5000), strict=True)
    ]
    folder = tmp_path_factory.mktemp("store")
    (folder / "pairs.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    corpus = open_corpus([str(folder / "pairs.tsv")], src_lang="en", tgt_lang="de")
    tokenizers = TokenizerPair.train(pairs, TokenizerConfig(vocab_size=300))
    return TokenStore.prepare(
        corpus, tokenizers, max_length=100, cache=folder / "cache", shard_pairs=request.param
    )


def src_lengths(store: TokenStore) -> np.ndarray:
    return np.concatenate([shard.open()[0].lengths for shard in store.shards])


def tgt_lengths(store: TokenStore) -> np.ndarray:
    return np.concatenate([shard.open()[1].lengths for shard in store.shards])
