"""Sentences that join packed steps while others are under way, and take the slots of those that are done."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.model import packed
from dragoman.model.compiled import CompiledSteps
from dragoman.model.kernels import FAST
from dragoman.model.packed import PackedDecoder, PackedSteps, can_pack
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.native import native
from dragoman.text.tokenizer import PAD_ID

V, BEAM = 24, 3
FORBIDDEN = (0, 1, 3)


@pytest.fixture(scope="module")
def model() -> Seq2SeqTransformer:
    torch.manual_seed(1)
    config = ModelConfig(
        d_model=16, n_heads=4, d_ff=32, n_encoder_layers=1, n_decoder_layers=2, max_positions=40
    )
    made = Seq2SeqTransformer(config, src_vocab_size=V, tgt_vocab_size=V, kernels=FAST).eval()
    if not can_pack(made):
        pytest.skip("this processor has no packed products")
    return made


@pytest.fixture(params=["packed", "compiled"])
def steps(model: Seq2SeqTransformer, request: pytest.FixtureRequest) -> PackedSteps | CompiledSteps:
    decoder = PackedDecoder(model)
    if request.param == "packed":
        return PackedSteps(decoder, FORBIDDEN)
    return compiled_steps(decoder)


def compiled_steps(decoder: PackedDecoder) -> CompiledSteps:
    if decoder.compiled is None:
        pytest.skip(native().reason)
    return CompiledSteps(decoder.compiled, FORBIDDEN)


class Walk:
    """Random rows of sentences that come and go, each checked against decoding from scratch."""

    def __init__(
        self, model: Seq2SeqTransformer, steps: PackedSteps | CompiledSteps, seed: int, *, limited: bool
    ) -> None:
        self.model, self.steps, self.limited = model, steps, limited
        self.generator = torch.Generator().manual_seed(seed)
        self.rows: list[tuple[int, list[int]]] = []
        self.sources: list[Tensor] = []
        self.allowed: list[Tensor] = []
        self.new: list[int] = []

    def draw(self, low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=self.generator))

    def join(self, n_sentences: int) -> None:
        sources = [
            torch.randint(4, V, (self.draw(1, 9),), generator=self.generator) for _ in range(n_sentences)
        ]
        src = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=PAD_ID)
        allowed = torch.rand(n_sentences, V, generator=self.generator) < 0.3
        allowed[:, :4] = True
        self.new += range(len(self.sources), len(self.sources) + n_sentences)
        self.sources += sources
        self.allowed += [*allowed]
        self.steps.join(src, src != PAD_ID, allowed if self.limited else None)

    def call(self, longest: int) -> None:
        """Go on with 0 to BEAM rows of each sentence that is there, and with all that have joined."""
        going: list[int] = []
        for sentence in dict.fromkeys(sentence for sentence, _ in self.rows):
            own = [row for row, (s, _) in enumerate(self.rows) if s == sentence]
            if len(self.rows[own[0]][1]) < longest:
                going += [
                    own[self.draw(0, len(own))]
                    for _ in range(self.draw(0, BEAM + 2) and self.draw(1, BEAM + 1))
                ]
        going.sort(key=lambda row: self.rows[row][0])
        parents = [*going, *range(len(self.rows), len(self.rows) + len(self.new))]
        if not parents:
            return
        tokens = torch.randint(4, V, (len(parents),), generator=self.generator)
        before = [*self.rows, *((sentence, list[int]()) for sentence in self.new)]
        self.new = []
        self.rows = [
            (before[row][0], [*before[row][1], int(token)])
            for row, token in zip(parents, tokens, strict=True)
        ]
        found = self.steps(tokens, torch.tensor(parents))
        ids = self.steps.ids if self.limited else torch.arange(V)
        assert ids is not None
        for log_probs, (sentence, prefix) in zip(found, self.rows, strict=True):
            src = self.sources[sentence][None]
            logits = self.model(src, src != PAD_ID, torch.tensor([prefix]))[0, -1]
            out = ~self.allowed[sentence] if self.limited else torch.zeros(V, dtype=torch.bool)
            out[list(FORBIDDEN)] = True
            expected = logits.masked_fill(out, -torch.inf).log_softmax(-1)
            torch.testing.assert_close(log_probs, expected[ids], rtol=1e-4, atol=1e-5)
            assert ids.diff().gt(0).all()
            if self.limited:
                assert torch.isin(self.allowed[sentence].nonzero()[:, 0], ids).all()


@pytest.mark.parametrize("limited", [False, True], ids=["all tokens", "some tokens"])
@pytest.mark.parametrize("seed", range(4))
@torch.no_grad()
def test_a_sentence_that_joins_is_read_as_if_alone(
    model: Seq2SeqTransformer,
    steps: PackedSteps | CompiledSteps,
    seed: int,
    limited: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packed, "COLUMNS_ROUNDED_TO", 4)
    monkeypatch.setattr(packed, "LEAST_COLUMNS", 4)
    walk = Walk(model, steps, seed, limited=limited)
    walk.join(1 + walk.draw(0, 5))
    for _ in range(40):
        walk.call(longest=12)
        for _ in range(walk.draw(0, 3)):
            walk.join(walk.draw(1, 4))
    assert len(walk.sources) > 20


@torch.no_grad()
def test_a_search_that_never_ends_keeps_no_more_than_it_needs(model: Seq2SeqTransformer) -> None:
    """Slots are those of a step, and columns those of sentences that are there."""
    steps = PackedSteps(PackedDecoder(model), FORBIDDEN)
    walk = Walk(model, steps, 7, limited=False)
    sizes = []
    for _ in range(300):
        walk.join(1)
        walk.call(longest=8)
        (_, n_slots, _, room, _) = steps.caches[0].tensors.shape
        sizes.append((n_slots, room, steps.ancestors.shape[2]))
    n_slots, room, n_columns = (max(column) for column in zip(*sizes, strict=True))
    assert n_slots <= 2 * 8 + 4
    assert n_columns <= 2 * packed.LEAST_COLUMNS + 3 * 8 * BEAM
    assert room <= 4 * n_columns


@torch.no_grad()
def test_a_compiled_search_that_never_ends_keeps_no_more_than_it_needs(model: Seq2SeqTransformer) -> None:
    steps = compiled_steps(PackedDecoder(model))
    walk = Walk(model, steps, 7, limited=False)
    n_nodes, most_needed = [], 0
    for _ in range(300):
        walk.join(1)
        walk.call(longest=8)
        most_needed = max(most_needed, sum(len(prefix) for _, prefix in walk.rows))
        n_nodes.append(steps.n_nodes)
    # In the middle of a step the nodes of those who leave are there beside the new ones.
    assert max(n_nodes) <= most_needed + len(walk.rows) + 8 * BEAM
    assert n_nodes[100] == n_nodes[-1] or max(n_nodes[100:]) <= 2 * max(n_nodes[:100])
