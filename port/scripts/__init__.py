"""A user's PyTorch training script: watched as it is, told of step by step, and its update written in JAX.

`observe` runs it unchanged in a process of its own, under torch's hooks (`observing`, which is all that is imported
there), and makes an `Observation` of the journal that these write (`events`, `steps`, `differences`); `account` says it
in the script's own lines, and `terminal` prints that. What cannot be told of is refused (`refusals`).
`write_script` does that and writes the script's update in JAX (`writing`, in the script's process, at its end).
Where torchrun starts a script in several processes (`torchrun`), each is watched, and the first one tells (`ranks`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from port.scripts.observation import Observation
    from port.scripts.observing_process import Script, observe
    from port.scripts.writing_process import WrittenUpdate, write_script

# The script's own process imports `port.scripts.observing` alone, and through this file nothing else.
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
