"""A torch optimizer with its groups, scheduler and state as an optax transformation and its state; both ways."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from port.optim.names import NAMES, default_options

if TYPE_CHECKING:
    from port.optim.checkpoints import load_opt_state
    from port.optim.from_torch import optax_source, to_optax
    from port.optim.into_torch import load_optimizer
    from port.optim.layout import in_torch_layout
    from port.optim.named import by_name

# Names alone need no jax; a trainer in torch asks for no more.
_HOMES = {
    "by_name": "port.optim.named",
    "in_torch_layout": "port.optim.layout",
    "load_opt_state": "port.optim.checkpoints",
    "load_optimizer": "port.optim.into_torch",
    "optax_source": "port.optim.from_torch",
    "to_optax": "port.optim.from_torch",
}

__all__ = [
    "NAMES",
    "by_name",
    "default_options",
    "in_torch_layout",
    "load_opt_state",
    "load_optimizer",
    "optax_source",
    "to_optax",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'port.optim' has no attribute {name!r}")
