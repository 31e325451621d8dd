"""Restore the original's class names in a package, where the single source had to number them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from port.translation.codegen.packages.places import FilePlace
from port.translation.codegen.vendor.definitions import Definition, Module


def names_in_files(
    source: Module,
    files: Mapping[FilePlace, list[Definition]],
    originals: Mapping[str, str],
    imported: Collection[str],
) -> dict[str, str]:
    """Return the names that change: name in the single source → name in the package's file.

    Args:
        source: the single source.
        files: place → the definitions in that file.
        originals: the name of a definition in the source → the original's name.
        imported: names that the source imports.
    """
    made: dict[str, str] = {}
    for definitions in files.values():
        bound = {name for definition in definitions for name in definition.binds}
        taken = bound | {name.id for definition in definitions for name in definition.names.found} | {*imported}
        taken |= source.local_names
        for name in [name for name in originals if name in bound]:
            wanted = originals[name]
            if wanted != name and wanted not in taken:
                made[name] = wanted
                taken.add(wanted)
    return made
