"""Check whether a comparison fits into memory: estimate it before the run, and recognise errors during it."""

from __future__ import annotations

from port.parity.sides.cost import Cost

_COPIES, _COPIES_WITH_GRADIENTS = 4, 6
"""The most copies of the parameters in memory: torch's running copy, JAX's, numpy's between the two; with gradients,
also each side's gradients and numpy's of both."""
_ACTIVATIONS, _ACTIVATIONS_WITH_GRADIENTS = 1, 2
"""The same for all results of operators, of which each side keeps some for its backward pass. Measured at 224 pixels,
batch 2: resnet18 took 1.1 GB (0.7 estimated), vit_b_32 3.8 (4.7), swin_t 2.8 (3.8)."""
_BEYOND = 1.2
"""How far an estimate may exceed the free memory: it is up to 1.6 times too large, and a comparison that does not fit
after all raises an error that `did_not_fit` recognises."""
SMALLER = "a smaller batch, smaller images or a shorter sequence"
"""What to use if a comparison does not fit."""
_SIGNS = ("RESOURCE_EXHAUSTED", "Out of memory", "can't allocate memory", "not enough memory")


def bytes_needed(cost: Cost, *, gradients: bool, parts: int = 1) -> float:
    """Estimate how much memory both sides need in addition to the module itself.

    Args:
        cost: the cost of the original's forward pass, in the precision of the comparison.
        gradients: whether there is a backward pass.
        parts: number of parts in which the parameters' gradients are taken.
    """
    if not gradients:
        return _COPIES * cost.held + _ACTIVATIONS * cost.results
    copies = _COPIES + (_COPIES_WITH_GRADIENTS - _COPIES) / parts
    return copies * cost.held + _ACTIVATIONS_WITH_GRADIENTS * cost.results


def bytes_free() -> int:
    """Return how much more memory this process can use, in bytes."""
    import psutil

    free = psutil.virtual_memory().available
    try:
        import resource
    except ImportError:  # Windows
        return free
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    return free if most == resource.RLIM_INFINITY else min(free, most - psutil.Process().memory_info().vms)


def fits(cost: Cost, *, gradients: bool, parts: int = 1) -> bool:
    """Whether both sides fit into the free memory; arguments as for `bytes_needed`."""
    return bytes_needed(cost, gradients=gradients, parts=parts) <= _BEYOND * bytes_free()


def did_not_fit(error: BaseException) -> bool:
    """Whether Python, torch or XLA ran out of memory, also as the cause of another error."""
    if isinstance(error, MemoryError) or any(sign in str(error) for sign in _SIGNS):
        return True
    return error.__cause__ is not None and did_not_fit(error.__cause__)


def gigabytes(count: float) -> str:
    """Format bytes: ``3.2 GB``."""
    return f"{count / 1e9:.1f} GB"


def shortage(cost: Cost, *, gradients: bool) -> str:
    """Say how much memory both sides need and how much is free; arguments as for `bytes_needed`."""
    needed = gigabytes(bytes_needed(cost, gradients=gradients))
    return f"about {needed} are needed, and {gigabytes(bytes_free())} are free"


def unfit(cost: Cost, *, gradients: bool, parts: int = 1) -> str:
    """Return why both sides do not fit into the free memory, and what to do; empty if they fit.

    Arguments as for `bytes_needed`.
    """
    if fits(cost, gradients=gradients, parts=parts):
        return ""
    of, how_much = "with gradients " if gradients else "", shortage(cost, gradients=gradients)
    return f"the comparison {of}does not fit into memory ({how_much}): use {SMALLER}, or check a part alone"
