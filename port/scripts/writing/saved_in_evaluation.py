"""Drop what an evaluation saves: a written trainer saves its state with Orbax."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from port.scripts.writing.taken_statements import called_name, calls_in

SAVES = ("save", "save_file", "save_model", "save_pretrained", "state_dict", "makedirs", "mkdir")


def without_saves(block: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a block without those that save weights, conditionally or not.

    Values decided there, such as the best accuracy so far, are dropped too.
    """
    return [one for one in block if not isinstance(one, ast.Global) and not _saves(one)]


def _saves(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If | ast.Expr | ast.Assign | ast.With):
        return False
    return any(called_name(call) in SAVES for call in calls_in(statement))
