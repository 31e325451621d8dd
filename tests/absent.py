"""Programs in which some packages cannot be imported, as if they were not installed."""

from __future__ import annotations

from collections.abc import Collection

from port.extras import EXTRAS

WITH_THE_CORE = {"markdown_it", "orbax", "psutil", "pygments"}
"""Packages of extras that the core has all the same: flax depends on orbax, orbax on psutil, rich on the others."""
OF_EXTRAS = {package for packages in EXTRAS.values() for package in packages}
ABSENT = OF_EXTRAS - WITH_THE_CORE
"""What an installation of the core alone does not have."""


def without(packages: Collection[str]) -> str:
    """The head of a program in which these packages cannot be found."""
    return f"""
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        is_held_back = name.partition(".")[0] in {sorted(packages)!r}
        return None if is_held_back else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Without, sys.meta_path)
"""
