"""Whether a comparison fits into memory: estimated before it runs, and seen where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from port.parity.sides.copies import copied

if TYPE_CHECKING:
    import torch

_COPIES, _COPIES_WITH_GRADIENTS = 4, 6
"""How many times the parameters are in memory at most: torch's copy that runs, JAX's, numpy's between the two; with
gradients, each side's and numpy's of both."""
_ACTIVATIONS, _ACTIVATIONS_WITH_GRADIENTS = 1, 2
"""The same of all results of operators: each side keeps some of them for its backward pass. Measured at 224 pixels and
batch 2: resnet18 took 1.1 GB (0.7 estimated), vit_b_32 3.8 (4.7), swin_t 2.8 (3.8)."""
_BEYOND = 1.2
"""How many times the free memory an estimate may be: it is up to 1.6 times too large, and what then does not fit raises
an error that is understood."""
SMALLER = "a smaller batch, smaller images or a shorter sequence"
"""What helps where a comparison does not fit."""
_SIGNS = ("RESOURCE_EXHAUSTED", "Out of memory", "can't allocate memory", "not enough memory")


def bytes_needed(module: torch.nn.Module, given: Any, *, gradients: bool) -> int:
    """How much memory both sides take beside the module itself, estimated; 0 where that cannot be told.

    The module runs on tensors without numbers, and the sizes of what its operators give are added.

    Args:
        module: the original, in the precision of the comparison.
        given: (args, kwargs).
        gradients: whether there is a backward pass.
    """
    from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
    from torch.utils import _pytree as pytree

    try:
        held = sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        # A copy: what the module keeps of a run, as its last attention weights, would have no numbers either.
        with FakeCopyMode(fake):
            without_numbers = copied(module).eval()
        with fake, _counted() as counted:
            args, kwargs = pytree.tree_map(lambda leaf: _faked(fake, leaf), given)
            without_numbers(*args, **kwargs)
    except Exception:  # it looks at its numbers, or holds sparse ones
        return 0
    if gradients:
        return _COPIES_WITH_GRADIENTS * held + _ACTIVATIONS_WITH_GRADIENTS * sum(counted)
    return _COPIES * held + _ACTIVATIONS * sum(counted)


def _faked(fake: Any, leaf: Any) -> Any:
    import torch

    return fake.from_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf


def _counted() -> Any:
    """Within it, the size in bytes of each new result of an operator is collected."""
    import torch
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.sizes: list[int] = []

        def __enter__(self) -> list[int]:  # type: ignore[override]
            super().__enter__()
            return self.sizes

        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = operator(*args, **(kwargs or {}))
            if not operator.is_view and not operator._schema.is_mutable:
                self.sizes += [leaf.nbytes for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
            return result

    return Counting()


def bytes_free() -> int:
    """How much memory this process may still take."""
    import psutil

    free = psutil.virtual_memory().available
    try:
        import resource
    except ImportError:  # Windows
        return free
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    return free if most == resource.RLIM_INFINITY else min(free, most - psutil.Process().memory_info().vms)


def fits(module: torch.nn.Module, given: Any, *, gradients: bool) -> bool:
    """Whether both sides run in the memory that is free; arguments as of `bytes_needed`."""
    return bytes_needed(module, given, gradients=gradients) <= _BEYOND * bytes_free()


def did_not_fit(error: BaseException) -> bool:
    """Whether memory ran out, Python's, torch's or XLA's; also where another error was raised from that."""
    if isinstance(error, MemoryError) or any(sign in str(error) for sign in _SIGNS):
        return True
    return error.__cause__ is not None and did_not_fit(error.__cause__)


def gigabytes(count: float) -> str:
    """``3.2 GB``."""
    return f"{count / 1e9:.1f} GB"


def shortage(module: torch.nn.Module, given: Any, *, gradients: bool) -> str:
    """How much both sides need and how much is free, in words; arguments as of `bytes_needed`."""
    needed = gigabytes(bytes_needed(module, given, gradients=gradients))
    return f"about {needed} are needed, and {gigabytes(bytes_free())} are free"


def unfit(module: torch.nn.Module, given: Any, *, gradients: bool) -> str:
    """Why both sides do not run in the memory that is free, and what to do; empty if they do.

    Arguments as of `bytes_needed`.
    """
    if fits(module, given, gradients=gradients):
        return ""
    of, how_much = "with gradients " if gradients else "", shortage(module, given, gradients=gradients)
    return f"the comparison {of}does not fit into memory ({how_much}): give {SMALLER}, or check a part alone"
