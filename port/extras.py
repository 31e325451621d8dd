"""Optional dependencies: the packages of each extra, and the error that names the extra to install.

The core installs no torch. What needs more than the core asks for it with `require`, before it does any work; where a
package is imported deep inside a call, `naming_extras` turns the failed import into the same error.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from port.errors import MissingExtra

EXTRAS = {
    "torch": ("torch", "torchvision", "psutil"),
    "orbax": ("orbax",),
    "train": ("grain", "sklearn", "psutil", "orbax"),
    "report": ("matplotlib", "jinja2", "plotly", "pygments", "markdown_it", "griffe"),
    "translate": ("torch", "ruff", "jinja2", "psutil"),
    "mcp": ("mcp", "pydantic"),
}
"""Extra → its packages, as they are imported; pyproject.toml has them by their distributions' names."""


def require(who: str, **extras: tuple[str, ...]) -> None:
    """Raise where a package that a command or function needs is not installed.

    Args:
        who: needs them, as in "port translate".
        extras: extra → those of its packages that are needed.

    Raises:
        MissingExtra: names every missing package, and how to install the extras that have them.
    """
    missing = {extra: [name for name in names if not is_installed(name)] for extra, names in extras.items()}
    wanted = [extra for extra, names in missing.items() if names]
    if wanted:
        names = list(dict.fromkeys(name for extra in wanted for name in missing[extra]))
        raise MissingExtra(who, names, how_to_install(wanted))


@contextmanager
def naming_extras(who: str) -> Iterator[None]:
    """Within it (or as a decorator), a failed import of an extra's package becomes `MissingExtra`.

    Args:
        who: imports it, as in "port.to_torch".

    Raises:
        MissingExtra: names the package, and how to install the extra that has it.
    """
    try:
        yield
    except MissingExtra:
        raise
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        for extra, names in EXTRAS.items():
            # A package that is there and fails to import something of its own is another fault.
            if package in names and not is_installed(package):
                raise MissingExtra(who, [package], how_to_install([extra])) from error
        raise


def is_installed(package: str) -> bool:
    """Whether a package can be found; it is not imported."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def how_to_install(extras: Sequence[str]) -> str:
    """The command that adds extras to this installation: from the clone, from the wheel, or by name."""
    wanted = f"[{','.join(extras)}]"
    clone = Path(__file__).parents[1]
    if (clone / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{clone}{wanted}')}"
    url = _installed_from()
    return f"pip install {shlex.quote(f'port{wanted}' + (f' @ {url}' if url else ''))}"


def _installed_from() -> str:
    """The address of the wheel or folder that pip installed port from; empty where it came from an index."""
    from importlib.metadata import PackageNotFoundError, distribution  # not at the top: half of `import port`'s time

    try:
        written = distribution("port").read_text("direct_url.json")
    except PackageNotFoundError:
        return ""
    return str(json.loads(written)["url"]) if written else ""
