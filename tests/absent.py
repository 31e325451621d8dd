"""Programs in which some packages cannot be imported, as if they were not installed."""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from port.extras import EXTRAS

WITH_THE_CORE = {"markdown_it", "orbax", "psutil", "pygments"}
"""Packages of extras that the core has all the same: flax depends on orbax, orbax on psutil, rich on the others."""
OF_EXTRAS = {package for packages in EXTRAS.values() for package in packages}
ABSENT = OF_EXTRAS - WITH_THE_CORE
"""What an installation of the core alone does not have."""


def missing_without(extras: Collection[str]) -> set[str]:
    """The installed packages that an environment with these extras alone would lack, those that others bring too."""
    wanted, everything = (_with_dependencies([f"port[{','.join(each)}]"]) for each in (extras, EXTRAS))
    distributions = {
        package: {canonicalize_name(name) for name in names} for package, names in packages_distributions().items()
    }
    return {package for package, names in distributions.items() if names & everything and not names & wanted}


def _with_dependencies(requirements: list[str]) -> set[str]:
    """The distributions that pip installs for these requirements, by canonical name."""
    found, queue = set(), [Requirement(each) for each in requirements]
    while queue:
        each = queue.pop()
        name, extras = canonicalize_name(each.name), frozenset(each.extras)
        if (name, extras) in found:
            continue
        found.add((name, extras))
        try:
            of_this = [Requirement(line) for line in requires(name) or ()]
        except PackageNotFoundError:  # for another system
            continue
        chosen = [{"extra": extra} for extra in extras | {""}]
        queue += [each for each in of_this if each.marker is None or any(map(each.marker.evaluate, chosen))]
    return {name for name, _ in found}


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
