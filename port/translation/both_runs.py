"""A module's runs in evaluation and in training, captured and carried over to JAX: what is written, or counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from port.errors import UsageError, described
from port.translation.graph import Graph
from port.translation.keeping import kept_layers
from port.translation.output_sizes import in_spatial_sizes
from port.translation.placed import Placed
from port.translation.refusals import both_modes
from port.translation.rounds import place

if TYPE_CHECKING:
    import torch

Runs = dict[bool, Placed]
"""By whether it is of training."""


@dataclass(frozen=True)
class BothRuns:
    """What came of a module's runs.

    Attributes:
        root: what was run: the module, or a model that holds it, where it is a layer alone.
        args: its positional arguments.
        kwargs: those by name.
        layers: paths of the layers kept whole → the torch layer.
        doubled: whether it was captured in float64.
        graphs: by whether it is of training.
        runs: the same in JAX's terms.
    """

    root: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    layers: dict[str, Any]
    doubled: bool
    graphs: dict[bool, Graph]
    runs: Runs


def both_runs(module: torch.nn.Module, args: Any, kwargs: dict[str, Any] | None, *, dynamic: bool) -> BothRuns:
    """Run a module in both modes.

    Args:
        module: of PyTorch; it stays as it is.
        args: example inputs: one tensor, or the tuple of positional arguments.
        kwargs: those given by name.
        dynamic: whether all lengths of the inputs stay free, not only the first axis's.

    Raises:
        UsageError: no module, or inputs that it does not take.
        NoPair: a module that torch.export cannot capture; says where and what to do.
    """
    import torch

    from port.translation.alone import as_root

    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"a torch.nn.Module is translated, got {described(module)}")
    args, kwargs = (tuple(args) if isinstance(args, tuple | list) else (args,)), dict(kwargs or {})
    root = as_root(module)
    layers = kept_layers(root)
    doubled, graphs = both_modes(root, args, kwargs, layers=layers, dynamic=dynamic)
    in_spatial_sizes(root, graphs)
    return BothRuns(root, args, kwargs, layers, doubled, graphs, place(graphs, root))
