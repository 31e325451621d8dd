"""The names that written classes have in their own files: the original's, where one source had to number them."""

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
    """Names in one source → those in the files of a package, where they are others.

    Args:
        source: the one.
        files: what each holds.
        originals: the name of a definition in the source → the original's.
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
