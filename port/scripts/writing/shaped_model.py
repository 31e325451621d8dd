"""Write the construction of a trainer's initial model, shaped by the script's options."""

from __future__ import annotations

from string import Template

from port.scripts.writing.trainer_facts import TrainerFacts

FIRST = Template('''\

def first_model(args: argparse.Namespace, dtype: Any) -> $root:
    """The model with the original's initial weights, or newly drawn ones if its options differ from FIRST_SHAPE."""
    options: dict[str, Any] = {"param_dtype": dtype, "rngs": nnx.Rngs(0)}
    if all(getattr(args, name) == value for name, value in FIRST_SHAPE.items()):
        return load(**options)
    return $construction

''')
SHAPE = Template('''\
FIRST_SHAPE: dict[str, Any] = $first
"""The options that shape the model, from when the original drew its initial weights."""
''')


def shaped_model(facts: TrainerFacts) -> dict[str, str]:
    """The source pieces of the initial model."""
    shaping = facts.shaping
    if shaping is None:
        return {"classes": "", "first_shape": "", "constructing": "", "first_model": "load(param_dtype=dtype)"}
    classes = shaping.construction.classes
    late = "  # noqa: E402" if facts.folder else ""
    return {
        "classes": f"from model import {', '.join(sorted(classes))}{late}\n",
        "first_shape": SHAPE.substitute(first=repr(shaping.first)),
        "constructing": FIRST.substitute(root=classes[0], construction=shaping.source),
        "first_model": "first_model(args, dtype)",
    }
