"""What a translator is trained on, epoch by epoch: the tokens of one corpus, or of a mix of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count, cycle, islice
from pathlib import Path

from dragoman.config import TranslationConfig
from dragoman.data.batching import Cut, EpochPlan, plan_shards
from dragoman.data.mixing import MixedStore, MixPart, Mixture, Stretch, plan_mix
from dragoman.data.modifiers import ModifiedCorpus
from dragoman.data.named import TrainingPart
from dragoman.data.records import Corpus, Pair, has_text
from dragoman.data.store import TokenStore, keep_only
from dragoman.errors import counted
from dragoman.text.tokenizer import TokenizerPair
from dragoman.text.vocabulary import MAX_TEXTS, draw_sample


class TrainingText:
    """The training text of a configuration. What an epoch holds follows from its number and the seed.

    A single corpus is read once in every epoch. Those of a list are mixed by shares: see `data.mixing`.
    """

    store: TokenStore
    """The tokens of the epoch that was opened last."""

    def __init__(self, config: TranslationConfig, parts: Sequence[TrainingPart], cache: Path) -> None:
        self.config, self.parts, self._cache = config, parts, cache
        self.mix: Mixture | None = None

    def sample(self) -> Iterator[Pair]:
        """Yield the pairs that vocabularies are learnt from, as the first epoch sees them.

        DataError: a corpus cannot be read.
        """
        if not self.config.data.corpora:
            yield from self._drawn(self.parts[0], draw=0).pairs()
            return
        most = MAX_TEXTS // len(self.parts)  # of a part: all samples are in memory together
        samples, counts = [], []
        for part in self.parts:
            numbers = count()
            drawn = self._drawn(part, draw=0).pairs()
            samples.append(draw_sample((p for p in drawn if has_text(p) and next(numbers) >= 0), most))
            counts.append(next(numbers))
        mix = Mixture(self._described(counts), temperature=self.config.data.temperature)
        stage = mix.stages[0]
        n_pairs = min(MAX_TEXTS // 2, stage.n_pairs)
        for pairs, share in zip(samples, stage.shares, strict=True):
            yield from islice(cycle(pairs), max(1, round(share * n_pairs)) if share else 0)

    def prepare(self, tokenizers: TokenizerPair, progress: Callable[[int], None] | None = None) -> list[str]:
        """Make the token stores, and return what there is to say of them, line by line.

        `progress` is told how many pairs of a corpus have been read.

        DataError: a corpus cannot be read, or no pair of it is usable.
        """
        self._tokenizers, data = tokenizers, self.config.data
        self._whole = [self._store(part, draw=0, progress=progress) for part in self.parts]
        self.store = self._together(self._whole)
        if not data.corpora:
            n_tokens = f"{self.store.n_src_tokens:,} + {self.store.n_tgt_tokens:,} tokens"
            notes = [f"{len(self.store):,} training pairs ({n_tokens})"]
            return [*notes, *self.parts[0].corpus.notes(), self.store.skipped_message()]
        parts = self._described([len(store) for store in self._whole])
        self.mix = Mixture(parts, temperature=data.temperature, stages=data.stages)
        notes = []
        for i, (part, store) in enumerate(zip(parts, self._whole, strict=True)):
            shares = ", then ".join(f"{100 * stage.shares[i]:.1f} %" for stage in self.mix.stages)
            notes += [
                f"{part.name}: {counted(len(store), 'training pair')} "
                f"({store.n_src_tokens:,} + {counted(store.n_tgt_tokens, 'token')}), {shares} of the mix",
                *self.parts[i].corpus.notes(),
                store.skipped_message(),
            ]
        left_out = [name for name in data.names if name not in {part.corpus for part in parts}]
        return notes + [f"{name}: trains none of the directions and is left out" for name in left_out]

    def open(self, epoch: int) -> TokenStore:
        """Return the tokens of an epoch: always the same, but with modifiers or BPE-dropout a fresh draw."""
        self._stretches = self.mix.epoch(epoch) if self.mix else [Stretch(0, epoch, 0.0, 1.0)]
        if self.config.draws_epochs:  # else it has been open from the beginning
            passes = [(self.parts[stretch.part], stretch.number) for stretch in self._stretches]
            self.store = self._together([self._store(part, draw=number) for part, number in passes])
            keep_only([*self._whole, self.store], self._cache)
        return self.store

    def plan(self, epoch: int, cut: Cut) -> EpochPlan:
        """Return the batches of the epoch that was opened last, as indices of its store."""
        seed, store, stretches = self.config.seed, self.store, self._stretches
        if not isinstance(store, MixedStore):
            return plan_shards(store, cut, seed=seed, epoch=epoch)
        drawn = self.config.draws_epochs  # then the store has the stretches, else the parts
        places = store.places if drawn else [store.places[stretch.part] for stretch in stretches]
        plan = plan_mix(stretches, places, store, cut, seed=seed, epoch=epoch)
        self._n_batches = len(plan)
        return plan

    def passes(self, epoch: int, batch: int) -> dict[str, float]:
        """Return how often each of several corpora has been read: see `Objective.passes`."""
        if self.mix is None:
            return {}
        passes = self.mix.passes(epoch + batch / self._n_batches)
        return {f"passes {part.name}": round(n, 3) for part, n in zip(self.mix.parts, passes, strict=True)}

    def as_it_stands(self) -> TokenStore:
        """Return the tokens of all pairs in the first direction, as their first pass has them."""
        stores = zip(self.parts, self._whole, strict=True)
        return self._together([store for part, store in stores if part.direction == self.config.languages])

    def _together(self, stores: Sequence[TokenStore]) -> TokenStore:
        return MixedStore(stores) if self.config.data.corpora else stores[0]

    def _described(self, counts: Sequence[int]) -> list[MixPart]:
        parts = []
        for part, n_pairs in zip(self.parts, counts, strict=True):
            assert part.listed is not None
            parts.append(MixPart(part.listed.name, part.direction, n_pairs, part.listed.weight))
        return parts

    def _drawn(self, part: TrainingPart, *, draw: int) -> Corpus:
        """Return the pairs of a part as its pass of this number sees them."""
        if not self.config.modifiers:
            return part.corpus
        return ModifiedCorpus(part.corpus, self.config, part.direction, draw=draw)

    def _store(
        self, part: TrainingPart, *, draw: int, progress: Callable[[int], None] | None = None
    ) -> TokenStore:
        """Return the tokens of a part as its pass of this number sees them."""
        synthetic = part.listed is not None and part.listed.origin == "synthetic"
        return TokenStore.prepare(
            self._drawn(part, draw=draw),
            self._tokenizers.towards(part.direction[1], synthetic=synthetic),
            max_length=self.config.data.max_length,
            cache=self._cache,
            dropout=(self.config.seed, draw) if self.config.tokenizer.dropout else None,
            progress=progress,
        )
