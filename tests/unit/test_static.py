"""The decoder in tensors that stay (model/static.py), which a GPU records; here it is carried out instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.config import ModelConfig
from dragoman.model import static
from dragoman.model.kernels import FAST_ON_GPU
from dragoman.model.static import LEAST_ROOM, Shape, Stage, StaticDecoder, power_of_two
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.translator import Translator

V = 30
SENTENCES = ["red cat", "two small dogs run", "the red bird sings a song", "cat", "a dog sees a red red bird"]


def small_model(**settings: object) -> Seq2SeqTransformer:
    torch.manual_seed(0)
    shape = {"d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 2}
    config = ModelConfig.model_validate({**shape, **settings})
    model = Seq2SeqTransformer(config, src_vocab_size=V, tgt_vocab_size=V, kernels=FAST_ON_GPU)
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_a_step_asks_the_device_nothing(n_rows: int, norm: str) -> None:
    """On the meta device there are no numbers: asking for one, or bringing one from elsewhere, fails."""
    stage = Stage(small_model(norm=norm).to("meta"), Shape(4, n_rows, 16, 16))
    assert stage.log_probs.is_meta
    with torch.inference_mode():
        stage._compute()


def test_a_model_on_a_processor_is_not_recorded() -> None:
    assert not static.can_record(small_model())


class Recorder:
    """In place of a CUDA graph: what is recorded is carried out again, on the tensors that were there."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.n_repeated = 0

    def __call__(self, compute: Callable[[], None], device: torch.device) -> Callable[[], None]:
        stage: Stage = compute.__self__  # type: ignore[attr-defined]
        self.stages.append(stage)
        places = self.places(stage)

        def again() -> None:
            assert self.places(stage) == places
            self.n_repeated += 1
            compute()
            assert self.places(stage) == places

        return again

    def places(self, stage: Stage) -> dict[str, int]:
        return {name: value.data_ptr() for name, value in vars(stage).items() if torch.is_tensor(value)}


def test_a_step_is_recorded_once_for_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(static, "record", recorder)
    decoder = StaticDecoder(small_model())
    src = torch.randint(4, V, (3, 5), generator=torch.Generator().manual_seed(1))
    for n_steps in (10, 2 * LEAST_ROOM):
        step = decoder.start(src, src > 0)
        for _ in range(n_steps):
            step(src[:, 0], torch.arange(3))
    assert [stage.shape for stage in recorder.stages] == [
        Shape(4, 1, LEAST_ROOM, LEAST_ROOM),
        Shape(4, 1, LEAST_ROOM, 2 * LEAST_ROOM),
    ]
    n_steps_of = (10 + LEAST_ROOM, LEAST_ROOM)
    assert recorder.n_repeated == sum(n - static.WARM_UP for n in n_steps_of)


def test_finished_sentences_leave_when_they_are_half() -> None:
    decoder = StaticDecoder(small_model())
    src = torch.randint(4, V, (8, 5), generator=torch.Generator().manual_seed(1))
    step = decoder.start(src, src > 0)
    sizes = []
    for parents in ([*range(8)], [*range(8)], [0, 2, 3, 5, 7], [0, 1, 3, 4], [1, 2], [1]):
        step(src[: len(parents), 0], torch.tensor(parents))
        sizes.append(step.stage.shape.n_sentences)
    assert sizes == [8, 8, 8, 4, 2, 1]


def test_only_so_many_shapes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "MOST_STAGES", 2)
    decoder = StaticDecoder(small_model())
    first = decoder.stage(Shape(1, 1, 16, 16))
    second = decoder.stage(Shape(2, 1, 16, 16))
    assert decoder.stage(Shape(1, 1, 16, 16)) is first
    decoder.stage(Shape(4, 1, 16, 16))  # the second was used longest ago
    assert decoder.stage(Shape(1, 1, 16, 16)) is first
    assert decoder.stage(Shape(2, 1, 16, 16)) is not second


def test_steps_of_an_earlier_search_are_not_taken_for_the_later_ones() -> None:
    decoder, src = StaticDecoder(small_model()), torch.full((2, 3), 5)
    early = decoder.start(src, src > 0)
    decoder.start(src, src > 0)
    with pytest.raises(AssertionError, match="another search"):
        early(src[:, 0], torch.arange(2))


def test_powers_of_two() -> None:
    assert [power_of_two(n) for n in range(1, 10)] == [1, 2, 4, 4, 8, 8, 8, 8, 16]
    assert power_of_two(3, LEAST_ROOM) == LEAST_ROOM


@pytest.mark.parametrize(
    "settings",
    [
        {"beam_size": 1},
        {"beam_size": 4, "n_best": 4},
        {"beam_size": 4, "diversity_groups": 2, "diversity_penalty": 0.5},
        {"method": "sampling", "n_best": 3, "seed": 2},
        {"beam_size": 3, "no_repeat_ngram": 2},
        {"beam_size": 2, "required": [["dog"]] * 5},
        {"beam_size": 2, "prefixes": ["ein"] * 5},
    ],
    ids=["greedy", "beam", "diverse", "sampling", "no repeats", "required", "prefix"],
)
def test_every_search_finds_the_same_on_a_static_decoder(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    translator = Translator.load(tiny_run, precision="fp32")
    expected = translator.translate(SENTENCES, **settings)
    monkeypatch.setattr("dragoman.predict.engine.can_record", lambda model: True)
    monkeypatch.setattr("dragoman.predict.engine.PackedDecoder", None)  # not to be called
    found = translator.translate(SENTENCES, **settings)
    for one, same in zip(found, expected, strict=True):
        assert [a.text for a in one.alternatives] == [a.text for a in same.alternatives]
        assert [a.score for a in one.alternatives] == pytest.approx(
            [a.score for a in same.alternatives], rel=1e-4
        )
