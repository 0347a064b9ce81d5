"""Files of tensors that are written by rows: those that safetensors writes at once."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from dragoman.tensors import DTYPES, Rows, allocate, load_tensors, write_rows

TENSORS = {
    **{name: torch.arange(6).reshape(3, 2).to(getattr(torch, name)) for name in DTYPES},
    "scalar": torch.tensor(3.0),
    "empty": torch.zeros(0, 4),
    'ü"': torch.randn(5, 3, generator=torch.Generator().manual_seed(0)),
}


def all_of(tensors: dict[str, Tensor]) -> dict[str, Rows]:
    return {name: Rows(tensor, 0, tuple(tensor.shape)) for name, tensor in tensors.items()}


def test_a_file_has_the_bytes_that_safetensors_gives_it(tmp_path: Path) -> None:
    for tensors in (TENSORS, {"one": torch.ones(2, 2)}, {}):
        allocate(tmp_path / "file", all_of(tensors))
        write_rows(tmp_path / "file", all_of(tensors))
        assert (tmp_path / "file").read_bytes() == save(tensors, metadata={"format": "pt"})


@pytest.mark.parametrize("n_writers", [2, 3, 7])
def test_writers_of_some_rows_each_make_the_whole_file(tmp_path: Path, n_writers: int) -> None:
    shares: list[dict[str, Rows]] = [{} for _ in range(n_writers)]
    for name, tensor in TENSORS.items():
        parts = tensor.chunk(n_writers) if tensor.dim() else [tensor]
        first = 0
        for i, share in enumerate(shares):
            part = parts[i] if i < len(parts) else tensor.new_empty(0)
            share[name] = Rows(part, first, tuple(tensor.shape))
            first += len(part) if part.dim() else 0
    allocate(tmp_path / "file", shares[0])
    for share in reversed(shares):
        write_rows(tmp_path / "file", share)
    for name, tensor in load_tensors(tmp_path / "file").items():
        assert torch.equal(tensor, TENSORS[name]), name
    assert (tmp_path / "file").read_bytes() == save(TENSORS, metadata={"format": "pt"})


class Meanwhile(dict[str, Rows]):
    """Tensors during whose writing, when one is taken for the n-th time, another process writes."""

    def __init__(self, tensors: dict[str, Rows], name: str, other: Callable[[], None], at: int) -> None:
        super().__init__(tensors)
        self.name, self.other, self.left = name, other, at

    def __getitem__(self, name: str) -> Rows:
        if name == self.name:
            self.left -= 1
            if not self.left:
                self.other()
        return super().__getitem__(name)


@pytest.mark.parametrize("at", range(1, 6))
def test_writers_at_the_same_time_leave_each_other_alone(tmp_path: Path, at: int) -> None:
    whole = {name: torch.arange(4.0) + i for i, name in enumerate("ab")}
    first, second = ({name: Rows(t[i : i + 2], i, (4,)) for name, t in whole.items()} for i in (0, 2))
    path = tmp_path / "file"
    allocate(path, first)
    n_calls = 0

    def other() -> None:
        nonlocal n_calls
        n_calls += 1
        write_rows(path, second)

    write_rows(path, Meanwhile(first, "b", other, at))
    if n_calls == 0:
        other()
    assert path.read_bytes() == save(whole, metadata={"format": "pt"})
