"""What is written is made of the translator's own nodes; Python's trees are for reading Python, and for the text."""

from __future__ import annotations

import ast
from pathlib import Path

import port.translation

ROOT = Path(port.translation.__file__).parent
NODES = {"ir/syntax/operators.py", "ir/syntax/reading.py", "ir/syntax/source.py"}
COMPILED = {
    "frontend/drawn_branches.py": "of the original's methods, which are changed and run, and never written",
    "frontend/jumps_lowered.py": "of the same",
}
READERS = {
    "artifact/written_module.py": "of the classes of a written source",
    "codegen/axis_sites.py": "of the constructions and calls of a written source",
    "codegen/packages/distributing.py": "of the definitions of a written source",
    "codegen/stack_constructions.py": "of a constructor's lines as the original has them",
    **COMPILED,
    "frontend/source_locations.py": "of where an attribute is set",
    "structure/branches.py": "of the branches of the original's calls",
    "structure/ctor_args.py": "of the original's constructors",
    "structure/length_statements.py": "of the original's statements that give lengths names",
    "structure/list_append.py": "of what the original calls a list",
    "structure/loop_names.py": "of what the original calls the items of lists",
    "structure/number_statements.py": "of what the original's conditions are worked out from",
    "structure/operand_order.py": "of the original's products and sums",
    "structure/source_map.py": "of the original's statements",
}
VENDOR = "codegen/vendor/"
"""It copies definitions of port's own, and so reads their source."""
KEPT = "structure/kept_constructors/"
"""The original's constructors are written as their source has them: their trees are changed, calls in them replaced."""
ORIGINS = ("frontend/origins/", "frontend/construction/")
"""They read the original's expressions, for where numbers come from, and what constructors were given."""
MODULES = {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def uses_of_ast(tree: ast.AST) -> set[str]:
    """The functions and classes of Python's ``ast`` that a module uses."""
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ast"
    }
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="ast", names=names):
                used |= {name.name for name in names}
            case ast.Import(names=names) if any(name.name == "ast" for name in names):
                used.add("")
    return used


def test_pythons_trees_are_for_reading_python_and_for_the_text() -> None:
    users = {
        name for name, tree in MODULES.items() if uses_of_ast(tree) and not name.startswith((VENDOR, KEPT, *ORIGINS))
    }
    assert users == NODES | READERS.keys()


def test_nothing_is_known_by_its_dump_and_no_tree_is_copied_to_be_changed() -> None:
    for name, tree in MODULES.items():
        if not name.startswith((VENDOR, KEPT)) and name not in COMPILED:
            assert not uses_of_ast(tree) & {"dump", "NodeTransformer"}, name


def test_the_check_sees_what_it_looks_for() -> None:
    assert uses_of_ast(ast.parse("import ast\nast.dump(x)")) == {"", "dump"}
    assert uses_of_ast(ast.parse("from ast import literal_eval")) == {"literal_eval"}
    assert not uses_of_ast(ast.parse("last.dump(x)"))
