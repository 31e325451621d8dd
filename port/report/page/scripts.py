"""The scripts of a page, and their hashes for its content security policy, which blocks any other script."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from functools import cache
from typing import Any, NamedTuple

from markupsafe import Markup


class Packed(NamedTuple):
    """A script that a page holds compressed; `shared.js` unpacks and runs it.

    Attributes:
        text: gzipped, in base64.
        hash: of the script itself, for the page's policy.
    """

    text: Markup
    hash: str


@cache
def packed_plotly() -> Packed:
    """Return plotly.js: 4.8 MB, packed 1.9 MB."""
    from plotly.offline import get_plotlyjs  # not at the top: 5 MB, needed only for a page

    script = get_plotlyjs()
    packed = gzip.compress(script.encode(), mtime=0)  # without the time, the same page is the same file
    return Packed(Markup(base64.b64encode(packed).decode()), hash_of(script))


def in_script(values: Any) -> Markup:
    """Return JSON that is safe inside a script element: without markup, and without NaN or infinity."""
    written = json.dumps(values, separators=(",", ":"), allow_nan=False)
    return Markup(written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def hash_of(script: str) -> str:
    """Return a script's hash for the policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
