"""An old tutorial says, today: code of 2020 to 2022, what became of it, and what one writes in its place.

The rows are data: nothing of JAX is imported. Their test runs each one, old and new, with what is installed. Versions
are from the libraries' changelogs and release notes, and from what they say themselves where they refuse or warn; where
a row names none, none of these did.
"""

from port.pairs.tutorials import arrays, checkpoints, devices, libraries, transformations
from port.pairs.tutorials.outdated import GIVEN, Fate, Outdated

OUTDATED: tuple[Outdated, ...] = (
    *arrays.ROWS,
    *transformations.ROWS,
    *devices.ROWS,
    *libraries.ROWS,
    *checkpoints.ROWS,
)

__all__ = ["GIVEN", "OUTDATED", "Fate", "Outdated"]
