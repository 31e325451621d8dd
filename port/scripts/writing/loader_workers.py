"""Write how a trainer starts its loaders' workers: never by forking the training process.

A fork would lose JAX's threads, and a spawned process imports everything again in each epoch. A fork server has
already imported it.
"""

from __future__ import annotations

import ast
import sys
from string import Template

from port.scripts.observation import Observation
from port.scripts.writing.loop import EpochLoop

JAX_SIDE = ("torch", "jax", "flax.nnx", "optax", "orbax.checkpoint")
"""Modules of train.py that are slow to import."""
WORKERS = Template("""\
    if "forkserver" in multiprocessing.get_all_start_methods():
        # For the loaders' workers: a fork of this process would lose JAX's threads; a spawned one imports all this.
        multiprocessing.set_start_method("forkserver")
        multiprocessing.set_forkserver_preload([$modules])
""")


def preloaded(loop: EpochLoop, observation: Observation) -> tuple[str, ...]:
    """The modules that a fork server imports for the loaders' workers; empty if there are no workers."""
    if not any(one["workers"] for one in observation.loaders):
        return ()
    names: list[str] = []
    for one in [*loop.taken.definitions, *loop.taken.body]:
        names += [one.module] if isinstance(one, ast.ImportFrom) and one.module and not one.level else []
        names += [name.name for name in one.names] if isinstance(one, ast.Import) else []
    roots = dict.fromkeys(name.partition(".")[0] for name in names)
    beside = {path.stem for path in loop.file.parent.iterdir()}
    return (*JAX_SIDE, *(root for root in roots if root not in {*JAX_SIDE, *sys.stdlib_module_names, *beside}))


def workers_pieces(modules: tuple[str, ...]) -> dict[str, str]:
    """The pieces of train.py for the workers."""
    if not modules:
        return {"forks": "", "multiprocessing": ""}
    named = ", ".join(f'"{name}"' for name in modules)
    return {"forks": WORKERS.substitute(modules=named), "multiprocessing": "import multiprocessing\n"}
