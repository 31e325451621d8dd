"""What the variables of an operator's pair are in a call of torch's."""

from __future__ import annotations

import ast
from typing import Any

from port.pairs.ops import OperatorPair

Values = dict[str, Any]

# Where the database gives the arguments in another order than torch takes them.
REORDERED = {
    "torch.where": (1, 0, 2),
    "torch.polygamma": (1, 0),
    "torch.einsum": (1, 0),
    "torch.nn.functional.embedding": (1, 0),
}


def variables_of(pair: OperatorPair, positional: list[Any], named: Values) -> Values | None:
    """What the variables of ``pair.says`` are in a call with these arguments; None if it has other ones."""
    said: Any = ast.parse(pair.says, mode="eval").body
    method = pair.torch.startswith("torch.Tensor.")
    call = isinstance(said, ast.Call)
    places = [("", said.func.value if call else said.value)] if method else []
    if call:
        places += [("", argument) for argument in said.args]
        places += [(keyword.arg, keyword.value) for keyword in said.keywords]
    values: Values = {}
    for name, place in places:
        if isinstance(place, ast.Starred):
            assert isinstance(place.value, ast.Name)
            first = positional.pop(0) if positional else ()
            values[place.value.id] = (*(first if isinstance(first, list | tuple) else (first,)), *positional)
            positional = []
            continue
        variable = place.id if isinstance(place, ast.Name) else ""
        if positional:
            value = positional.pop(0)
        elif (name or variable) in named:
            value = named.pop(name or variable)
        elif variable in pair.left_out:
            value = pair.left_out[variable]
        else:
            return None
        if isinstance(place, ast.Constant):
            if value != place.value:
                return None
        else:
            values[variable] = value
    return None if positional or named else values
