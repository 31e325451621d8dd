"""Converts a torch optimizer with its groups, scheduler and state to an optax transformation and its state, and back.

To optax (`from_torch`): its groups and their parameters' names are read (`reading`, `naming`, `complete`), its
schedulers (`together`, `epochs`), everything is assembled into an expression (`assembling`, `layout`), and the state is
filled (`contents`, `state`, `memory`). Back (`into_torch`): the state is read part by part (`parts`), viewed from
torch's parameters (`held`), and the schedulers are set to their positions (`placing`). From a checkpoint (`moving`):
`saved`, `saved_scheduler`, `state_dicts`, and into a file, `checkpoints`. By name alone: `named`, `names`, `options`.
Averages of the weights: `averaged`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from port.optim.names import NAMES, default_options

if TYPE_CHECKING:
    from port.optim.averaged import averaged_state, load_averaged_model
    from port.optim.checkpoints import load_opt_state
    from port.optim.from_torch import optax_source, to_optax
    from port.optim.into_torch import load_optimizer
    from port.optim.layout import in_torch_layout
    from port.optim.named import by_name

# Names alone need no jax; a torch trainer uses no more.
_HOMES = {
    "averaged_state": "port.optim.averaged",
    "by_name": "port.optim.named",
    "in_torch_layout": "port.optim.layout",
    "load_averaged_model": "port.optim.averaged",
    "load_opt_state": "port.optim.checkpoints",
    "load_optimizer": "port.optim.into_torch",
    "optax_source": "port.optim.from_torch",
    "to_optax": "port.optim.from_torch",
}

__all__ = [
    "NAMES",
    "averaged_state",
    "by_name",
    "default_options",
    "in_torch_layout",
    "load_averaged_model",
    "load_opt_state",
    "load_optimizer",
    "optax_source",
    "to_optax",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'port.optim' has no attribute {name!r}")
