"""The decoder in tensors that stay (model/static.py), which a GPU records; here it is carried out instead."""

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dragoman.model import recording, static
from dragoman.model.kernels import FAST_ON_GPU
from dragoman.model.recording import Recording, record
from dragoman.model.static import LEAST_ROOM, RecordedStep, Shape, StaticDecoder, power_of_two, stage_bytes
from dragoman.predict.torch_engine import TorchEngine
from dragoman.predict.translator import Translator
from small_models import random_ids, small_model

SENTENCES = ["red cat", "two small dogs run", "the red bird sings a song", "cat", "a dog sees a red red bird"]


@pytest.fixture
def translator(tiny_run: Path) -> Translator:
    """One whose searches have recorded nothing yet."""
    return Translator.load(tiny_run, precision="fp32")


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_a_step_asks_the_device_nothing(n_rows: int, norm: str) -> None:
    """On the meta device there are no numbers: asking for one, or bringing one from elsewhere, fails."""
    stage = RecordedStep(small_model(FAST_ON_GPU, norm=norm).to("meta"), Shape(4, n_rows, 16, 16))
    assert stage.log_probs.is_meta
    with torch.inference_mode():
        stage._compute()


def test_a_model_on_a_processor_is_not_recorded() -> None:
    assert not static.can_record(small_model(FAST_ON_GPU))


class Recorder:
    """In place of CUDA graphs: a recording is run again, on the tensors that were there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, room_for: int = 1000) -> None:
        """There is memory for `room_for` recordings."""
        self.shapes: list[Shape] = []
        self.pools: list[object] = []
        self.n_repeated, self.room_for = 0, room_for
        monkeypatch.setattr(static, "can_record", lambda model: True)
        monkeypatch.setattr(static, "record", self.record)

    def record(self, compute: Callable[[], None], device: torch.device, *, pool: Any) -> Recording[None]:
        if len(self.shapes) == self.room_for:
            raise torch.OutOfMemoryError
        stage: RecordedStep = compute.__self__  # type: ignore[attr-defined]
        self.shapes.append(stage.shape)
        self.pools.append(pool)
        return Recording(Graph(self, stage, pool), None)  # type: ignore[arg-type]


class Graph:
    def __init__(self, recorder: Recorder, stage: RecordedStep, pool: object) -> None:
        self.recorder, self.own_pool = recorder, pool or object()
        self.stage, self.places = weakref.ref(stage), places(stage)

    def pool(self) -> object:
        return self.own_pool

    def replay(self) -> None:
        stage = self.stage()
        assert stage is not None
        self.recorder.n_repeated += 1
        stage._compute()
        assert places(stage) == self.places


def places(stage: RecordedStep) -> dict[str, int]:
    return {name: value.data_ptr() for name, value in vars(stage).items() if torch.is_tensor(value)}


def test_a_step_is_recorded_once_for_a_shape_and_all_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    decoder = StaticDecoder(small_model(FAST_ON_GPU))
    src = random_ids(3, 5)
    for n_steps in (10, 2 * LEAST_ROOM):
        step = decoder.start(src, src > 0)
        for _ in range(n_steps):
            step(src[:, 0], torch.arange(3))
    assert recorder.shapes == [Shape(4, 1, LEAST_ROOM, n * LEAST_ROOM) for n in (1, 2)]
    n_steps_of = (10 + LEAST_ROOM, LEAST_ROOM)
    assert recorder.n_repeated == sum(n - static.WARM_UP for n in n_steps_of)
    assert recorder.pools[0] is None
    assert recorder.pools[1] is decoder.pool is not None


def test_a_step_without_memory_to_be_recorded_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    src = random_ids(3, 5)
    found = []
    for room_for in (0, 1):
        recorder = Recorder(monkeypatch, room_for=room_for)
        step = StaticDecoder(small_model(FAST_ON_GPU)).start(src, src > 0)
        found.append([step(src[:, 0], torch.arange(3)).clone() for _ in range(5)])
        assert len(recorder.shapes) == room_for
    torch.testing.assert_close(*found)


def test_finished_sentences_leave_when_they_are_half() -> None:
    decoder = StaticDecoder(small_model(FAST_ON_GPU))
    src = random_ids(8, 5)
    step = decoder.start(src, src > 0)
    sizes = []
    for parents in ([*range(8)], [*range(8)], [0, 2, 3, 5, 7], [0, 1, 3, 4], [1, 2], [1]):
        step(src[: len(parents), 0], torch.tensor(parents))
        sizes.append(step.stage.shape.n_sentences)
    assert sizes == [8, 8, 8, 4, 2, 1]
    assert [power_of_two(n) for n in range(1, 10)] == [1, 2, 4, 4, 8, 8, 8, 8, 16]
    assert power_of_two(3, LEAST_ROOM) == LEAST_ROOM


def test_the_stages_used_longest_ago_go_where_all_weigh_too_much() -> None:
    model = small_model(FAST_ON_GPU)
    shapes = [Shape(n, 1, 16, 16) for n in (1, 2, 4)]
    weights = [stage_bytes(model, shape) for shape in shapes]
    decoder = StaticDecoder(model, max_bytes=sum(weights) - 1)
    first, _ = decoder.stage(shapes[0]), decoder.stage(shapes[1])
    assert decoder.stage(shapes[0]) is first
    decoder.stage(shapes[2])  # the second was used longest ago
    assert list(decoder.stages) == [shapes[0], shapes[2]]
    decoder.stage(Shape(64, 4, 16, 16))  # more than all may weigh
    assert list(decoder.stages) == [Shape(64, 4, 16, 16)]


@pytest.mark.parametrize("shape", [Shape(64, 4, 32, 16), Shape(128, 1, 16, 64)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_stage_weighs_what_its_tensors_do(shape: Shape, dtype: torch.dtype) -> None:
    model = small_model(FAST_ON_GPU)
    model.dtype = dtype
    stage = RecordedStep(model, shape)
    n_bytes = sum(value.nbytes for value in vars(stage).values() if torch.is_tensor(value))
    assert stage_bytes(model, shape) == pytest.approx(n_bytes, rel=0.1)


def test_stages_go_with_their_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for the garbage collector, which does not know what a GPU's memory is worth."""
    Recorder(monkeypatch)
    decoder, src = StaticDecoder(small_model(FAST_ON_GPU)), torch.full((2, 3), 5)
    step = decoder.start(src, src > 0)
    for _ in range(2 * LEAST_ROOM):
        step(src[:, 0], torch.arange(2))
    left = [weakref.ref(stage) for stage in decoder.stages.values()]
    assert len(left) == 2
    gc.disable()
    try:
        del step, decoder
        assert [stage() for stage in left] == [None, None]
    finally:
        gc.enable()


def test_steps_of_an_earlier_search_are_not_taken_for_the_later_ones() -> None:
    decoder, src = StaticDecoder(small_model(FAST_ON_GPU)), torch.full((2, 3), 5)
    early = decoder.start(src, src > 0)
    decoder.start(src, src > 0)
    with pytest.raises(AssertionError, match="another search"):
        early(src[:, 0], torch.arange(2))


def by_pytorch(translator: Translator) -> Translator:
    """The same with its models in PyTorch."""
    return Translator(TorchEngine(*translator.models), translator.tokenizers, translator.config)


@pytest.mark.slow
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
    ids=str,
)
def test_every_search_finds_the_same_on_a_static_decoder(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    expected = translator.translate(SENTENCES, **settings)
    monkeypatch.setattr("dragoman.predict.torch_engine.can_record", lambda model: True)
    found = by_pytorch(translator).translate(SENTENCES, **settings)
    for one, same in zip(found, expected, strict=True):
        for ours, theirs in zip(one.alternatives, same.alternatives, strict=True):
            assert ours.text == theirs.text
            assert ours.score == pytest.approx(theirs.score, rel=1e-4)


def test_a_search_that_does_not_fit_is_made_in_halves(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"method": "sampling", "n_best": 2, "seed": 3}
    expected = translator.translate(SENTENCES, **settings)
    sizes = []

    def start(self: StaticDecoder, src: torch.Tensor, *args: Any, **options: Any) -> Any:
        sizes.append(len(src))
        if len(src) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return static.StaticSteps(self, src, *args, **options)

    monkeypatch.setattr("dragoman.predict.torch_engine.can_record", lambda model: True)
    monkeypatch.setattr(StaticDecoder, "start", lambda self, *a, forbidden: start(self, *a, forbidden))
    assert [t.ids for t in by_pytorch(translator).translate(SENTENCES, **settings)] == [
        t.ids for t in expected
    ]
    assert sizes == [5, 2, 3, 1, 2]


def test_a_sentence_that_does_not_fit_alone_is_tried_twice(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was kept from searches before may have taken its room."""
    calls = []

    def start(self: StaticDecoder, *_: Any, **__: Any) -> Any:
        calls.append(len(self.stages))
        self.stage(Shape(1, 1, 16, 16))
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("dragoman.predict.torch_engine.can_record", lambda model: True)
    monkeypatch.setattr(StaticDecoder, "start", start)
    with pytest.raises(torch.OutOfMemoryError):
        by_pytorch(translator).translate(["red cat"])
    assert calls == [0, 0]


class Cuda:
    """In place of torch.cuda: on which device and stream things happen, of which nothing does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.current, self.happened = "cuda:0", []  # type: ignore[var-annotated]
        self.stream_of: dict[str, Any] = {}
        cuda = self

        class Stream:
            def __init__(self, device: object) -> None:
                self.device = str(device)

            def wait_stream(self, other: "Stream") -> None:
                assert self.device == other.device

        @contextmanager
        def device(wanted: object) -> Iterator[None]:
            before, cuda.current = cuda.current, str(wanted)
            yield
            cuda.current = before

        def current_stream(wanted: object) -> Stream:
            return cuda.stream_of.setdefault(str(wanted), Stream(wanted))

        @contextmanager
        def on(stream: Stream) -> Iterator[None]:
            before, cuda.stream_of[stream.device] = current_stream(stream.device), stream
            yield
            cuda.stream_of[stream.device] = before

        @contextmanager
        def graph(made: Any, *, pool: object, stream: Stream, capture_error_mode: str) -> Iterator[None]:
            made.device, made.stream, made.given = cuda.current, stream, pool
            with on(stream):
                yield

        for name, value in {
            "Stream": Stream, "device": device, "current_stream": current_stream, "stream": on,
            "graph": graph, "CUDAGraph": SimpleNamespace,
        }.items():  # fmt: skip
            monkeypatch.setattr(torch.cuda, name, value)
        recording._stream.cache_clear()


def test_a_graph_is_recorded_on_the_device_that_is_named_and_on_one_stream_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever device is current, as in a thread that a service has started."""
    cuda, second = Cuda(monkeypatch), torch.device("cuda", 1)
    computed = []

    def compute() -> int:
        computed.append((cuda.current, torch.cuda.current_stream(second)))
        return len(computed)

    recorded = [record(compute, second, pool="pool", warm_up=2) for _ in range(2)]
    graphs: list[Any] = [each.graph for each in recorded]
    assert [graph.device for graph in graphs] == ["cuda:1", "cuda:1"]
    assert graphs[0].stream is graphs[1].stream
    assert {graph.given for graph in graphs} == {"pool"}
    assert computed == 6 * [("cuda:1", graphs[0].stream)]
    assert [each.result for each in recorded] == [3, 6]
    assert cuda.current == "cuda:0"
    recording._stream.cache_clear()


def test_running_out_of_memory_while_recording_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though ending such a recording may fail in another way."""
    Cuda(monkeypatch)

    @contextmanager
    def graph(*_: object, **__: object) -> Iterator[None]:
        try:
            yield
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    def compute() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.cuda, "graph", graph)
    with pytest.raises(torch.OutOfMemoryError):
        record(compute, torch.device("cuda", 0))
    with pytest.raises(RuntimeError, match="previous error"):
        record(lambda: None, torch.device("cuda", 0))
