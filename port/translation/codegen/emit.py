"""Emit a program as the text of a Python module."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

from port.translation.codegen.constructors import (
    annotation_of,
    base_of,
    constructor,
    or_pass,
    root_arguments,
    shortened,
)
from port.translation.codegen.docstrings import docstring, first_paragraph
from port.translation.codegen.functions import definition
from port.translation.codegen.imports import Imports
from port.translation.codegen.load_function import load_function
from port.translation.codegen.logical_axes import named, rules_text
from port.translation.codegen.shorter import shortened_calls
from port.translation.codegen.statements import text_of
from port.translation.ir import syntax
from port.translation.ir.expr import code, names_in
from port.translation.ir.lowered import UNWRITTEN
from port.translation.ir.module_calls import FORWARD, key_of
from port.translation.structure.call_annotations import RETURN
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.configurations import ConfigurationClass
from port.translation.structure.constructors import common_parameters
from port.translation.structure.held_lists import held_lists
from port.translation.structure.list_append import grown
from port.translation.structure.logical_axes import NO_AXES, LogicalAxes
from port.translation.structure.methods import split
from port.translation.structure.program import Program
from port.translation.structure.remat import Numbers, checkpointed
from port.translation.structure.written_body import Body

WIDTH = 120


def render(
    program: Program,
    *,
    title: str,
    weights: str | None = None,
    tables: str = "",
    doubled: bool = False,
    remat: Mapping[str, Numbers] | None = None,
    policy: str = "",
    checks: Sequence[syntax.Stmt] = (),
    axes: LogicalAxes = NO_AXES,
) -> str:
    """Return the source of a Flax NNX module.

    Args:
        program: the classes, functions and configurations to emit.
        title: the first line of the module's docstring.
        weights: name of the safetensors file that ``load`` reads; None to emit no ``load``.
        tables: name of the safetensors file with the tables that a new module starts with.
        doubled: whether the module was captured in float64; float64 is then emitted as the default float.
        remat: the classes whose calls are checkpointed, from `checkpointed_classes`.
        policy: the checkpoint policy: which of their residuals are saved.
        checks: statements at the head of the root's ``__call__``.
        axes: the logical axes of the parameters, in the order of the constructions in the source.
    """
    imports = imports_of(program, doubled=doubled)
    functions = [definition(made, imports) for part in program.parts for made in part.functions]
    classes = [_class(made, part, imports, remat or {}, policy) for made, part in program.written_classes]
    arguments = root_arguments(program, imports)
    root = program.classes[-1].name
    if checks:
        classes[-1] = _with_checks(classes[-1], [imports.read(check) for check in checks])
    if program.configurations:
        imports.line("from dataclasses import dataclass")
    configurations = [_configuration(made, program) for made in program.configurations]
    definitions = [imports.read(shortened(made.statement)) for part in program.parts for made in part.definitions]
    for line in program.imports:
        imports.line(line)
    text = "\n\n\n".join([*configurations, *map(text_of, [*definitions, *functions, *classes])])
    read = names_in(*definitions, *functions, *classes)
    if UNWRITTEN in read:
        text = f"{_UNWRITTEN}\n\n\n{text}"
    if "Buffer" in read:
        imports.own("Buffer")
    if "TABLES" in read:
        text = f"{_TABLES.format(tables=tables)}\n\n\n{text}"
        imports.line("from pathlib import Path")
        imports.own("Tables")
    if weights is not None:
        partly, takes = bool({"TABLES", "unknown_start"} & read), _takes_arguments(classes[-1])
        takes |= any(made.stacked for made, _ in program.written_classes)
        on_mesh = axes.rules is not None
        text += "\n\n\n" + load_function(
            root, weights, arguments, imports, takes_arguments=takes, partly=partly, on_mesh=on_mesh
        )
    if axes.rules is not None:
        from port.nn.logical_axes import ByHead

        imports.own("logical_axes")
        if any(isinstance(along, ByHead) for along in axes.rules.values()):
            imports.own("by_head")
        if any(call.gives for call in axes.calls):
            imports.own("divided")
        if axes.gathers:
            imports.own("gathered")
        text = f"{rules_text(axes)}\n\n\n{text}"
    head = f'"""{title}"""\n\nfrom __future__ import annotations\n\n' + imports.text() + "\n\n"
    whole = head + text + "\n"
    return formatted(whole if axes.rules is None else named(whole, axes))


def imports_of(program: Program, *, doubled: bool = False) -> Imports:
    """Return an empty `Imports` for a program's source."""
    return Imports(default_float=doubled, taken=program.names)


def formatted(text: str) -> str:
    """Format source with ``ruff format``; sort its imports and remove unused ones.

    Raises:
        AssertionError: ruff rejects the source.
    """
    from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]

    ruff = find_ruff_bin()
    # The order must not depend on the current folder: port counts as third-party, also inside port's repository.
    known = 'lint.isort.known-third-party = ["port"]'
    sort = ["check", "--isolated", "--config", known, "--select", "I,F401", "--fix", "--quiet"]
    sort += ["--line-length", str(WIDTH), "-"]
    for command in (sort, ["format", "--isolated", "--line-length", str(WIDTH), "-"]):
        done = subprocess.run([ruff, *command], input=text, capture_output=True, text=True, check=False)
        if done.stdout:
            text = done.stdout
        elif done.returncode:
            raise AssertionError(f"ruff rejects the generated source: {done.stderr}\n{text}")
    return text


def _class(
    made: FoldedClass, program: Program, imports: Imports, remat: Mapping[str, Numbers], policy: str
) -> syntax.ClassDef:
    text = syntax.Docstring(docstring(made.original))
    body: list[syntax.Stmt] = [text, *constructor(made, program, imports)]
    forward, methods = (None, {}) if made.body is None else split(made.body)
    call = None if forward is None else _method(made, FORWARD, forward, program, imports)
    if made.name in remat:
        checkpointed_methods = checkpointed(call, remat[made.name], policy, is_scanned=made.is_scanned)
        body += [imports.read(method) for method in checkpointed_methods]
    elif call is not None:
        body.append(call)
    body += [_method(made, name, method, program, imports) for name, method in methods.items()]
    body.sort(key=lambda each: _line(made.original, each))
    return syntax.ClassDef(made.name, (imports.read(base_of(made)),), tuple(body))


def _takes_arguments(root: syntax.ClassDef) -> bool:
    """Whether the constructor takes more than the common parameters. Inherited constructors are not inspected."""
    found = [each for each in root.body if isinstance(each, syntax.FunctionDef) and each.name == "__init__"]
    common = {"self", *(parameter.name for parameter in common_parameters())}
    return any(parameter.name not in common for made in found for parameter in made.parameters)


def _with_checks(made: syntax.ClassDef, checks: Sequence[syntax.Stmt]) -> syntax.ClassDef:
    """Insert checks at the head of a class's ``__call__``."""

    def checked(statement: syntax.Stmt) -> syntax.Stmt:
        if isinstance(statement, syntax.FunctionDef) and statement.name == "__call__":
            return replace(statement, body=(*checks, *statement.body))
        return statement

    return replace(made, body=tuple(map(checked, made.body)))


def _configuration(made: ConfigurationClass, program: Program) -> str:
    fields = []
    for field in made.fields:
        default = "" if field.default is None else f" = {syntax.source(field.default)}"
        annotation = annotation_of([field.value, *([] if field.default is None else [field.default])], program)
        fields.append(f"    {field.name}: {syntax.source(annotation)}{default}")
    original = f"{made.original.__module__}.{made.original.__qualname__}"
    return _CONFIGURATION.format(name=made.name, original=original, fields="\n".join(fields))


def _method(made: FoldedClass, name: str, body: Body, program: Program, imports: Imports) -> syntax.FunctionDef:
    """Emit a method under the original's name; ``forward`` becomes ``__call__``."""
    written = list(body.statements)
    if body.returns is not None:
        written.append(syntax.Return(body.returns))
    lists = {name for name, value in made.attributes.items() if held_lists({name: value}, {}).lengths}
    original = getattr(made.original, name)
    written = grown(written, original, names_in(*body.statements) | {*body.parameters, *lists})
    statements = [imports.read(shortened_calls(statement, {})) for statement in written]
    keys = [key_of(path, name) for path in made.members]
    parameters = (syntax.Parameter("self"), *(_parameter(each, keys, program, imports) for each in body.parameters))
    returns = _returned(keys, body.returns, program, imports)
    docstring = () if name == FORWARD else _docstring_of(original)
    called = "__call__" if name == FORWARD else name
    return syntax.FunctionDef(called, parameters, (*docstring, *or_pass(statements)), returns=returns)


def _line(original: type, statement: syntax.Stmt) -> int:
    """Return a method's line in the original's class; 0 for the constructor and for inherited methods."""
    name = getattr(statement, "name", "__init__")
    function = vars(original).get(FORWARD if name == "__call__" else name)
    return function.__code__.co_firstlineno if isinstance(function, FunctionType) and name != "__init__" else 0


def _docstring_of(original: Any) -> tuple[syntax.Stmt, ...]:
    """Return a method's docstring statement; none if `first_paragraph` is empty."""
    first = first_paragraph(original)
    return () if not first else (syntax.Docstring(first),)


def _parameter(name: str, keys: Sequence[str], program: Program, imports: Imports) -> syntax.Parameter:
    """Return a parameter of a method, with its annotation and default.

    Args:
        name: the parameter's name with its stars.
        keys: `key_of` the method's calls, one per instance of the class.
        program: the whole program.
        imports: collect the imports of what is read.
    """
    own = name.lstrip("*")
    match name.removesuffix(own):
        case "**":
            return syntax.Parameter(own, syntax.Name("Any"), kind="**")
        case "*":
            return syntax.Parameter(own, imports.read(code("jax.Array")), kind="*")
    defaults = [program.options.get(key, {}).get(own) for key in keys]
    default = next((imports.read(each) for each in defaults if each is not None), None)
    annotation = _annotated(keys, program, own)
    if default == syntax.Const(None) and "None" not in syntax.source(annotation):
        annotation = code("a | None", a=annotation)
    return syntax.Parameter(own, imports.read(annotation), default)


def _returned(
    keys: Sequence[str], returned: syntax.Expr | None, program: Program, imports: Imports
) -> syntax.Expr | None:
    """Return the annotation of a method's result: one array, or ``Any``."""
    if returned is None:
        return None
    annotation = _annotated(keys, program, RETURN)
    is_one = isinstance(annotation, syntax.Attribute | syntax.Name)
    if is_one and not isinstance(returned, syntax.Tuple | syntax.Dict | syntax.List):
        return imports.read(annotation)
    return syntax.Name("Any")


def _annotated(keys: Sequence[str], program: Program, name: str) -> syntax.Expr:
    """Merge the types that an argument or result has in all instances: ``jax.Array``, a list of them, or ``Any``."""
    found = {kind for key in keys for kind in program.annotations.get(key, {}).get(name, ())}
    some = sorted(found - {"None"})
    text = some[0] if len(some) == 1 else "Any" if some else "jax.Array"
    return code(f"{text} | None" if "None" in found and text != "Any" and some else text)


_UNWRITTEN = f'''
def {UNWRITTEN}(what: str) -> Any:
    """Raise an error in place of code that has no translation; a comment above the call has the original's line."""
    raise NotImplementedError(f"{{what}}: write it here")
'''.strip()

_TABLES = """
# Initial values of a new model that no formula gives.
TABLES = Tables(Path(__file__).with_name("{tables}"))
""".strip()

_CONFIGURATION = '''
@dataclass(frozen=True)
class {name}:
    """The fields of {original} that the model reads."""

{fields}
'''.strip()
