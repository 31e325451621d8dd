"""Find whether a script calls its sampler's ``set_epoch(epoch)`` before each pass."""

from __future__ import annotations

import ast
from pathlib import Path

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.wording import place_of
from port.scripts.writing.own_calls import argument_for, functions_of, is_call_of
from port.scripts.writing.taken_statements import called_name, calls_in


def tells_epoch(tree: ast.Module, epochs: ast.For | None, training: Event, file: Path) -> bool:
    """Whether the script calls ``set_epoch(epoch)`` of the training loader's sampler.

    Only a line that ran counts: a call made only in several processes does not count in one.

    Raises:
        UsageError: it passes something other than the loop's variable, or calls another sampler's set_epoch.
    """
    seen = training.get("epoch_told")
    if seen is None:
        return False
    line = seen["where"]["line"] if seen["where"] is not None and Path(seen["where"]["file"]) == file else 0
    calls = [one for one in calls_in(tree) if called_name(one) == "set_epoch" and one.lineno <= line]
    call = next((one for one in calls if line <= (one.end_lineno or line)), None)
    arguments = [*call.args, *(word.value for word in call.keywords)] if call is not None else []
    if call is not None and len(arguments) == 1 and seen["of"] == "sampler":
        match epochs, _in_loop(arguments[0], call, epochs, tree, str(file)):
            case ast.For(target=ast.Name(name)), ast.Name(said) if said == name:
                return True
    raise UsageError(
        f"{place_of(seen['where'])} does not call {training['name']}.{seen['of']}.set_epoch with the variable of "
        "the loop over the epochs, or calls another object's: write the loop around train_step"
    )


def _in_loop(
    argument: ast.expr, call: ast.Call, epochs: ast.For | None, tree: ast.Module, file: str
) -> ast.expr | None:
    """A call's argument in the names of the loop around it, or around the call of its function."""
    if epochs is None or any(one is call for one in ast.walk(epochs)):
        return argument
    for function, owner, named in functions_of(tree):
        if isinstance(argument, ast.Name) and any(one is call for one in ast.walk(function)):
            outer = next((one for one in calls_in(epochs) if is_call_of(one, named, file)), None)
            return None if outer is None else argument_for(argument.id, outer, function, (), is_bound=owner is not None)
    return None
