"""A device beside the processor, made of the processor: it finds what would mix the two on a GPU.

Tensors there hold numbers, unlike those of PyTorch's "meta" device, whose name they borrow. An operation on
tensors of both devices is refused as CUDA would refuse it, so that the whole of Dragoman can be run as on a
GPU, but for what asks for the name "cuda".
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ELSEWHERE = torch.device("meta")
CPU = torch.device("cpu")

COPIES = ("aten::copy_", "aten::_to_copy", "aten::_foreach_copy_")
"""What may read one device and write the other."""
INDEXING = ("aten::index.Tensor", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
"""What takes indices from the processor on every device."""


class Elsewhere(torch.Tensor):
    """A tensor of the other device: a name and a shape around one of the processor."""

    here: torch.Tensor

    @staticmethod
    def __new__(cls, here: torch.Tensor) -> "Elsewhere":
        found: Elsewhere = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            here.shape,
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=ELSEWHERE,
        )
        found.here = here
        return found

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_without_lists(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_without_lists(index), value)

    def tolist(self) -> Any:
        return self.here.tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError("can't convert a tensor of another device to numpy. Use Tensor.cpu()")

    def new_tensor(self, data: Any, **options: Any) -> torch.Tensor:
        return Elsewhere(self.here.new_tensor(data, **options))

    def __repr__(self, **_: Any) -> str:
        return f"Elsewhere({self.here!r})"


def compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Return the result of an operation, computed on the processor. RuntimeError: it mixes devices."""
    tensors: list[torch.Tensor] = []

    def here(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            assert isinstance(value, Elsewhere) or not value.is_meta, "a tensor whose numbers are lost"
            tensors.append(value)
        return value.here if isinstance(value, Elsewhere) else value

    given, options = mapped(here, args), mapped(here, kwargs)
    refuse_mixtures(func.name(), args, tensors)
    there = any(isinstance(each, Elsewhere) for each in tensors)
    if kwargs.get("device") is not None:
        there = torch.device(kwargs["device"]).type == ELSEWHERE.type
        options["device"] = CPU
    found = func(*given, **options)
    if not there:
        return found
    known = {id(each.here): each for each in tensors if isinstance(each, Elsewhere)}  # changed in place

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return known[id(value)] if id(value) in known else Elsewhere(value)

    return mapped(moved, found)


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """What arguments or results become, `function` having been called with each."""
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(function, each) for each in value)
    if isinstance(value, dict):
        return {name: mapped(function, each) for name, each in value.items()}
    return function(value)


def refuse_mixtures(name: str, args: Any, tensors: list[torch.Tensor]) -> None:
    """RuntimeError: an operation on a GPU would not take tensors of both devices.

    It takes numbers of the processor (tensors without dimensions), but not as an optimizer's step counts.
    """
    if name.startswith(COPIES) or all(isinstance(each, Elsewhere) for each in tensors):
        return
    if name.startswith(INDEXING) and isinstance(args[0], Elsewhere):
        tensors = [args[0], *args[2:3]] if len(args) > 2 else []
    if not any(isinstance(each, Elsewhere) for each in tensors):
        return
    strangers = [each for each in tensors if not isinstance(each, Elsewhere)]
    if any(each.dim() or "_fused" in name for each in strangers):
        raise RuntimeError(f"Expected all tensors to be on the same device: {name}")


def _without_lists(index: Any) -> Any:
    """An index whose lists are tensors: PyTorch's own forgets their numbers for a device of this name."""
    if isinstance(index, tuple):
        return tuple(map(_without_lists, index))
    return torch.tensor(index) if isinstance(index, list) else index


class _Operations(TorchDispatchMode):
    """Operations without a tensor from elsewhere, which may make one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


@contextmanager
def second_device() -> Iterator[torch.device]:
    """The device; it is there as long as the context lasts."""
    make, move = torch.tensor, torch.nn.Module.to

    def tensor(data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
        """PyTorch's own forgets the numbers for a device of this name."""
        made = make(data, **options)
        return made if device is None else made.to(device)

    def to(module: Any, *where: Any, **options: Any) -> Any:
        """PyTorch's own unties weights that become tensors of another class."""
        move(module, *where, **options)
        if hasattr(module, "_tie"):
            module._tie()
        return module

    # Such tensors do not know inference mode, and their numbers are not where `data` is set.
    without_gradients = {"__enter__": torch.no_grad.__enter__, "__exit__": torch.no_grad.__exit__}
    with ExitStack() as stack:
        for patch in (
            mock.patch.multiple(torch.inference_mode, **without_gradients),
            mock.patch("torch.__future__.get_overwrite_module_params_on_conversion", return_value=True),
            mock.patch(
                "torch.optim.optimizer._get_fused_kernels_supported_devices", return_value=["cpu", "meta"]
            ),
            mock.patch("torch.tensor", tensor),
            mock.patch("torch.nn.Module.to", to),
            _Operations(),
        ):
            stack.enter_context(patch)
        yield ELSEWHERE
