"""Emit ``load``, the function of a generated source that returns the model with its weights."""

from __future__ import annotations

from collections.abc import Mapping

from port.translation.codegen.imports import Imports


def load_function(
    root: str,
    weights: str,
    arguments: Mapping[str, str],
    imports: Imports,
    *,
    takes_arguments: bool,
    partly: bool,
    on_mesh: bool = False,
) -> str:
    """Return the text of ``load``.

    Args:
        root: the class to construct.
        weights: name of the safetensors file that it reads.
        arguments: the constructor's arguments that are not defaults: names → expressions.
        imports: collect the imports of ``load``.
        takes_arguments: whether the constructor takes arguments; ``load`` then reads them from the file.
        partly: whether some initial values are unknown, and only the file has them.
        on_mesh: whether ``load`` also takes a mesh, and places the model on it by the source's ``RULES``.
    """
    passed = "".join(f", {name}={text}" for name, text in arguments.items())
    options = "rngs=rngs or nnx.Rngs(0), **options"
    if "**options" in passed:  # the construction of a module among the arguments takes the options too
        options = "**options"
    made = f"model = {root}({options})"
    onto: list[str] = []
    if on_mesh:
        imports.own("load_on_mesh")
        imports.line("from collections.abc import Mapping")
        imports.line("from jax.sharding import Mesh")
        onto = [
            "    if mesh is not None:",
            f"        return load_on_mesh(lambda: {root}({options}), path, mesh, RULES, rules)",
        ]
    lines = [*onto, f"    with filled_later():\n        {made}" if partly else f"    {made}"]
    own = ["filled_later"] if partly else []
    summary = "Load the model with its weights"
    if takes_arguments or arguments:
        lines = [f"    options = saved_arguments(path, {root}, options{passed})", *lines]
        if options == "**options":
            lines = ['    options = {"rngs": rngs or nnx.Rngs(0), **options}', *lines]
        own.append("saved_arguments")
        summary += ", constructed with the file's arguments"
    for name in (*own, "load_weights"):
        imports.own(name)
    imports.line("from pathlib import Path")
    imports.line("from typing import Any")
    more, also = (_ON_MESH, _ALSO_ON_MESH) if on_mesh else ("", "")
    return _HEAD.format(root=root, weights=weights, summary=summary, more=more, also=also) + "\n".join(
        [*lines, "    load_weights(model, path)", "    return model"]
    )


_HEAD = '''
def load(
    path: str | Path = Path(__file__).with_name("{weights}"), *, rngs: nnx.Rngs | None = None, {more}**options: Any
) -> {root}:
    """{summary}; ``options`` go to the constructor.{also}"""
'''.lstrip()

_ALSO_ON_MESH = """

    With a mesh, each device loads its own parts of the arrays, divided by `RULES`, or by ``rules`` instead.
    """.rstrip(" ")
_ON_MESH = "mesh: Mesh | None = None, rules: Mapping[str, Any] | None = None, "
