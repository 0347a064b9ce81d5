"""What a translator is trained on, epoch by epoch: the tokens of one corpus, or of a mix of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import count, cycle, islice
from pathlib import Path

from dragoman.config import TranslationConfig
from dragoman.data.batching import Cut, EpochPlan, plan_shards
from dragoman.data.mixing import MixedStore, MixPart, Mixture, plan_mix
from dragoman.data.modifiers import ModifiedCorpus
from dragoman.data.named import TrainingPart
from dragoman.data.records import Corpus, Pair, has_text
from dragoman.data.store import TokenStore, keep_only
from dragoman.errors import counted
from dragoman.text.tokenizer import TokenizerPair
from dragoman.text.vocabulary import MAX_TEXTS, draw_sample


class TrainingText(ABC):
    """The training text of a configuration. What an epoch holds follows from its number and the seed."""

    def __init__(self, config: TranslationConfig, parts: Sequence[TrainingPart], cache: Path) -> None:
        self.config, self.parts, self._cache = config, parts, cache
        self._whole: list[TokenStore] = []
        """The tokens of each part as its first pass has them."""

    @abstractmethod
    def sample(self) -> Iterator[Pair]:
        """Yield the pairs that vocabularies are learnt from, as the first epoch sees them.

        DataError: a corpus cannot be read.
        """

    @abstractmethod
    def prepare(self, tokenizers: TokenizerPair, progress: Callable[[int], None] | None = None) -> list[str]:
        """Make the token stores, and return what there is to say of them, line by line.

        `progress` is told how many pairs of a corpus have been read.

        DataError: a corpus cannot be read, or no pair of it is usable.
        """

    @abstractmethod
    def open(self, epoch: int) -> TokenStore:
        """Return the tokens of an epoch: always the same, but with modifiers or BPE-dropout a fresh draw."""

    @abstractmethod
    def as_it_stands(self) -> TokenStore:
        """Return the tokens of all pairs in the first direction, as their first pass has them."""

    @abstractmethod
    def plan(self, epoch: int, cut: Cut) -> EpochPlan:
        """Return the batches of the epoch that was opened last, as indices of its store."""

    def passes(self, epoch: int, batch: int) -> dict[str, float]:
        """Return how often each of several corpora has been read: see `Task.passes`."""
        return {}

    def _drawn(self, part: TrainingPart, *, draw: int) -> Corpus:
        """Return the pairs of a part as its pass of this number sees them."""
        if not self.config.modifiers:
            return part.corpus
        return ModifiedCorpus(part.corpus, self.config, part.direction, draw=draw)

    def _store(
        self,
        part: TrainingPart,
        tokenizers: TokenizerPair,
        *,
        draw: int,
        progress: Callable[[int], None] | None = None,
    ) -> TokenStore:
        """Return the tokens of a part as its pass of this number sees them."""
        synthetic = part.listed is not None and part.listed.origin == "synthetic"
        dropout = (self.config.seed, draw) if self.config.tokenizer.dropout else None
        return TokenStore.prepare(
            self._drawn(part, draw=draw),
            tokenizers.towards(part.direction[1], synthetic=synthetic),
            max_length=self.config.data.max_length,
            cache=self._cache,
            dropout=dropout,
            progress=progress,
        )


class OneCorpus(TrainingText):
    """A single corpus, read once in every epoch."""

    def sample(self) -> Iterator[Pair]:
        yield from self._drawn(self.parts[0], draw=0).sample(MAX_TEXTS // 2)

    def prepare(self, tokenizers: TokenizerPair, progress: Callable[[int], None] | None = None) -> list[str]:
        self._tokenizers = tokenizers
        self.store = store = self._store(self.parts[0], tokenizers, draw=0, progress=progress)
        self._whole = [store]
        counted = f"{len(store):,} training pairs ({store.n_src_tokens:,} + {store.n_tgt_tokens:,} tokens)"
        return [counted, *self.parts[0].corpus.notes(), store.skipped_message()]

    def as_it_stands(self) -> TokenStore:
        return self._whole[0]

    def open(self, epoch: int) -> TokenStore:
        if self.config.draws_epochs:  # else it has been open from the beginning
            self.store = self._store(self.parts[0], self._tokenizers, draw=epoch)
            keep_only([*self._whole, self.store], self._cache)
        return self.store

    def plan(self, epoch: int, cut: Cut) -> EpochPlan:
        return plan_shards(self.store, cut, seed=self.config.seed, epoch=epoch)


class SeveralCorpora(TrainingText):
    """Corpora in one direction or several, mixed by shares: see `data.mixing`."""

    def sample(self) -> Iterator[Pair]:
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
        self._tokenizers = tokenizers
        data = self.config.data
        self._whole = [self._store(part, tokenizers, draw=0, progress=progress) for part in self.parts]
        self.store = MixedStore(self._whole)
        parts = self._described([len(store) for store in self._whole])
        self.mix = Mixture(parts, temperature=data.temperature, stages=data.stages)
        notes: list[str] = []
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

    def _described(self, counts: Sequence[int]) -> list[MixPart]:
        parts = []
        for part, n_pairs in zip(self.parts, counts, strict=True):
            assert part.listed is not None
            parts.append(MixPart(part.listed.name, part.direction, n_pairs, part.listed.weight))
        return parts

    def as_it_stands(self) -> TokenStore:
        stores = zip(self.parts, self._whole, strict=True)
        return MixedStore([store for part, store in stores if part.direction == self.config.languages])

    def open(self, epoch: int) -> TokenStore:
        self._stretches = self.mix.epoch(epoch)
        if self.config.draws_epochs:
            passes = [(self.parts[stretch.part], stretch.number) for stretch in self._stretches]
            self.store = MixedStore([self._store(part, self._tokenizers, draw=n) for part, n in passes])
            keep_only([*self._whole, self.store], self._cache)
            self._places = self.store.places
        else:
            self._places = [self.store.places[stretch.part] for stretch in self._stretches]
        return self.store

    def plan(self, epoch: int, cut: Cut) -> EpochPlan:
        seed = self.config.seed
        plan = plan_mix(self._stretches, self._places, self.store, cut, seed=seed, epoch=epoch)
        self._n_batches = len(plan)
        return plan

    def passes(self, epoch: int, batch: int) -> dict[str, float]:
        passes = self.mix.passes(epoch + batch / self._n_batches)
        return {f"passes {part.name}": round(n, 3) for part, n in zip(self.mix.parts, passes, strict=True)}
