"""Whether a comparison fits into memory: estimated before it runs, and seen where it does not."""

from __future__ import annotations

from port.parity.sides.cost import Cost

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


def bytes_needed(cost: Cost, *, gradients: bool, parts: int = 1) -> float:
    """How much memory both sides take beside the module itself, estimated.

    Args:
        cost: of the original's forward pass, in the precision of the comparison.
        gradients: whether there is a backward pass.
        parts: in how many parts the gradients of the parameters are taken.
    """
    if not gradients:
        return _COPIES * cost.held + _ACTIVATIONS * cost.results
    copies = _COPIES + (_COPIES_WITH_GRADIENTS - _COPIES) / parts
    return copies * cost.held + _ACTIVATIONS_WITH_GRADIENTS * cost.results


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


def fits(cost: Cost, *, gradients: bool, parts: int = 1) -> bool:
    """Whether both sides run in the memory that is free; arguments as of `bytes_needed`."""
    return bytes_needed(cost, gradients=gradients, parts=parts) <= _BEYOND * bytes_free()


def did_not_fit(error: BaseException) -> bool:
    """Whether memory ran out, Python's, torch's or XLA's; also where another error was raised from that."""
    if isinstance(error, MemoryError) or any(sign in str(error) for sign in _SIGNS):
        return True
    return error.__cause__ is not None and did_not_fit(error.__cause__)


def gigabytes(count: float) -> str:
    """``3.2 GB``."""
    return f"{count / 1e9:.1f} GB"


def shortage(cost: Cost, *, gradients: bool) -> str:
    """How much both sides need and how much is free, in words; arguments as of `bytes_needed`."""
    needed = gigabytes(bytes_needed(cost, gradients=gradients))
    return f"about {needed} are needed, and {gigabytes(bytes_free())} are free"


def unfit(cost: Cost, *, gradients: bool, parts: int = 1) -> str:
    """Why both sides do not run in the memory that is free, and what to do; empty if they do.

    Arguments as of `bytes_needed`.
    """
    if fits(cost, gradients=gradients, parts=parts):
        return ""
    of, how_much = "with gradients " if gradients else "", shortage(cost, gradients=gradients)
    return f"the comparison {of}does not fit into memory ({how_much}): give {SMALLER}, or check a part alone"
