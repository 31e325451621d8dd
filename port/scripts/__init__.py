"""Watch a user's PyTorch training script unchanged, describe it step by step, and write its update in JAX.

`observe` runs it unchanged in a separate process, under torch's hooks (`observing`, the only package imported there),
and turns the journal they write into an `Observation` (`events`, `steps`, `differences`); `account` describes it line
by line, and `terminal` prints that. Scripts that cannot be described are refused (`refusals`).
`write_script` does that and writes the script's update in JAX (`writing`, in the script's process, at its end).
If torchrun starts the script in several processes (`torchrun`), each is watched and rank 0 reports (`ranks`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from port.scripts.observation import Observation
    from port.scripts.observing_process import Script, observe
    from port.scripts.writing_process import WrittenUpdate, write_script

# The script's process imports only `port.scripts.observing`; this file must pull in nothing else.
_HOMES = {
    "Observation": "port.scripts.observation",
    "Script": "port.scripts.observing_process",
    "WrittenUpdate": "port.scripts.writing_process",
    "observe": "port.scripts.observing_process",
    "write_script": "port.scripts.writing_process",
}

__all__ = ["Observation", "Script", "WrittenUpdate", "observe", "write_script"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'port.scripts' has no attribute {name!r}")
