"""A program's classes as the text of a Python module."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from port.translation.codegen.functions import definition
from port.translation.codegen.imports import Imports
from port.translation.codegen.shorter import runs_of, shortened_calls
from port.translation.codegen.statements import text_of
from port.translation.ir import syntax
from port.translation.ir.expr import code, names_in, worth
from port.translation.ir.lowered import UNWRITTEN
from port.translation.structure.call_tree import RETURN
from port.translation.structure.class_merge import Argument, FoldedClass, KeptConstructor
from port.translation.structure.configurations import ConfigurationClass
from port.translation.structure.constructors import OPTIONS
from port.translation.structure.init_inference.numbers import readable
from port.translation.structure.list_append import grown
from port.translation.structure.own_arguments import Configuration
from port.translation.structure.program import Program
from port.translation.structure.remat import Numbers, checkpointed
from port.translation.structure.reroll_statements import list_lengths

WIDTH = 120
S = TypeVar("S", bound=syntax.Stmt)
_COMMON = ("dtype", "param_dtype", "rngs")


def render(
    program: Program,
    *,
    title: str,
    weights: str | None = None,
    tables: str = "",
    doubled: bool = False,
    remat: Mapping[str, Numbers] | None = None,
    checks: Sequence[syntax.Stmt] = (),
) -> str:
    """The source of a Flax NNX module.

    Args:
        program: its classes.
        title: the first line of the docstring.
        doubled: whether the module was captured in float64, which then stands for the default float.
        weights: name of the safetensors file that ``load`` reads; None for no ``load``.
        tables: name of the safetensors file of the tables that a new module starts with.
        remat: names of the classes whose calls are checkpointed, as `checkpointed_classes` gives them.
        checks: statements at the head of the root's ``__call__``.
    """
    taken = [*(made.name for made in program.classes), *(made.name for made in program.functions)]
    imports = Imports(default_float=doubled, taken=taken)
    functions = [definition(made, imports) for made in program.functions]
    classes = [_class(made, program, imports, remat or {}) for made in program.classes]
    root = program.classes[-1].name
    if checks:
        classes[-1] = _with_checks(classes[-1], [imports.read(check) for check in checks])
    if program.configurations:
        imports.line("from dataclasses import dataclass")
    configurations = [_configuration(made, program) for made in program.configurations]
    definitions = [imports.read(_shortened(made)) for made in program.definitions]
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
        partly = {"TABLES", "unknown_start"} & read
        text += "\n\n\n" + (_LOAD_LATER if partly else _LOAD).format(
            root=root, weights=weights, arguments=_arguments(program)
        )
        if partly:
            imports.own("filled_later")
        imports.line("from pathlib import Path")
        imports.line("from safetensors.numpy import load_file")
        imports.line("import jax.numpy as jnp")
        imports.line("from typing import Any")
    head = f'"""{title}"""\n\nfrom __future__ import annotations\n\n' + imports.text() + "\n\n"
    return formatted(head + text + "\n")


def formatted(text: str) -> str:
    """The text as ``ruff format`` writes it, its imports sorted."""
    from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]

    ruff = find_ruff_bin()
    # What stands in the folder where this runs must not change the order: port is a library like the others.
    known = 'lint.isort.known-third-party = ["port"]'
    sort = ["check", "--isolated", "--config", known, "--select", "I,F401", "--fix", "--quiet"]
    sort += ["--line-length", str(WIDTH), "-"]
    for command in (sort, ["format", "--isolated", "--line-length", str(WIDTH), "-"]):
        done = subprocess.run([ruff, *command], input=text, capture_output=True, text=True, check=False)
        if done.stdout:
            text = done.stdout
        elif done.returncode:
            raise AssertionError(f"ruff does not take what was written: {done.stderr}\n{text}")
    return text


def _class(made: FoldedClass, program: Program, imports: Imports, remat: Mapping[str, Numbers]) -> syntax.ClassDef:
    text = syntax.Docstring(f"{made.original.__module__}.{made.original.__qualname__} of PyTorch.")
    constructor = [_constructor(made, program, imports)] if made.kept is None else _kept(made.kept, program, imports)
    body: list[syntax.Stmt] = [text, *constructor]
    call = None if made.body is None else _call(made, program, imports)
    if made.name in remat:
        body += [imports.read(method) for method in checkpointed(call, remat[made.name])]
    elif call is not None:
        body.append(call)
    base = code("nnx.Sequential" if made.is_sequential else "nnx.Module") if made.kept is None else made.kept.base
    return syntax.ClassDef(made.name, (imports.read(base),), tuple(body))


def _constructor(made: FoldedClass, program: Program, imports: Imports) -> syntax.FunctionDef:
    names = {other.name: other for other in program.classes}
    attributes = {
        name: imports.read(shortened_calls(readable(value), names)) for name, value in made.attributes.items()
    }
    statements: list[syntax.Stmt] = []
    if made.body is not None and made.body.modes:
        statements.append(_assign("deterministic", syntax.Const(False)))
    kept = [argument for argument in made.arguments if argument.kept]
    for argument in kept:
        statements.append(_assign(argument.name, syntax.Name(argument.name)))
    if OPTIONS in names_in(*attributes.values()):
        options = code("{" + ", ".join(f'"{name}": {name}' for name in _COMMON) + "}")
        statements.append(syntax.AnnAssign(syntax.Name(OPTIONS), code("dict[str, Any]"), options))
    if made.is_sequential:
        call = syntax.Call(code("super().__init__"), runs_of(tuple(attributes.values())))
        statements.append(syntax.ExprStmt(call))
    else:
        statements += [_assign(name, value) for name, value in attributes.items()]
    if made.is_frozen:
        statements.append(syntax.ExprStmt(imports.read(code("port.nn.frozen(self)"))))
    imports.line("from typing import Any")
    imports.line("import jax.numpy as jnp")
    parameters = (
        syntax.Parameter("self"),
        *(_parameter(argument, program, imports) for argument in made.arguments),
        syntax.Parameter("dtype", syntax.Name("Any"), syntax.Const(None), kind="name"),
        syntax.Parameter("param_dtype", syntax.Name("Any"), code("jnp.float32"), kind="name"),
        syntax.Parameter("rngs", imports.read(code("nnx.Rngs")), kind="name"),
    )
    return syntax.FunctionDef("__init__", parameters, _or_pass(statements), returns=syntax.Const(None))


def _kept(kept: KeptConstructor, program: Program, imports: Imports) -> list[syntax.Stmt]:
    """A constructor as the original's source has it, and the methods that it calls."""
    imports.line("from typing import Any")
    imports.line("import jax.numpy as jnp")
    return [imports.read(each) for each in (*kept.attributes, *map(_shortened, kept.functions))]


def _shortened(definition: S) -> S:
    """A definition whose calls say no more than they have to."""

    def shorter(statement: syntax.Stmt) -> syntax.Stmt:
        if isinstance(statement, syntax.Lines):
            return replace(statement, parts=tuple(shortened_calls(readable(part), {}) for part in statement.parts))
        return statement

    return syntax.transformed(definition, shorter)


def _or_pass(statements: Sequence[syntax.Stmt]) -> tuple[syntax.Stmt, ...]:
    return tuple(statements) or (syntax.Pass(),)


def _with_checks(made: syntax.ClassDef, checks: Sequence[syntax.Stmt]) -> syntax.ClassDef:
    """A class whose ``__call__`` begins with checks."""

    def checked(statement: syntax.Stmt) -> syntax.Stmt:
        if isinstance(statement, syntax.FunctionDef) and statement.name == "__call__":
            return replace(statement, body=(*checks, *statement.body))
        return statement

    return replace(made, body=tuple(map(checked, made.body)))


def _assign(name: str, value: syntax.Expr) -> syntax.Stmt:
    return syntax.Assign(syntax.Attribute(syntax.Name("self"), name), value)


def _parameter(argument: Argument, program: Program, imports: Imports) -> syntax.Parameter:
    default = None if argument.default is None else imports.read(argument.default)
    annotation = _annotation(argument, program)
    return syntax.Parameter(argument.name, annotation, default, kind="name" if argument.by_name else "")


def _annotation(argument: Argument, program: Program) -> syntax.Expr:
    return syntax.Name("Any") if argument.is_module else _annotation_of(argument.values.values(), program)


def _annotation_of(values: Iterable[syntax.Expr], program: Program) -> syntax.Expr:
    """How it is annotated what is one of several constants."""
    configurations = {made.original: made.name for made in program.configurations}

    def kind(value: Any) -> str:
        match value:
            case Configuration(original):
                return configurations.get(original, "Any")
            case tuple() | list() if value:
                inside = {kind(item) for item in value}
                return f"tuple[{inside.pop() if len(inside) == 1 else 'Any'}, ...]"
        return type(value).__name__.replace("NoneType", "None")

    kinds = {kind(worth(value)) for value in values}
    kinds = {"float"} if kinds == {"int", "float"} else kinds
    return code("Any" if "Any" in kinds else " | ".join(sorted(kinds, key=lambda each: (each == "None", each))))


def _configuration(made: ConfigurationClass, program: Program) -> str:
    fields = []
    for field in made.fields:
        default = "" if field.default is None else f" = {syntax.source(field.default)}"
        annotation = _annotation_of([field.value, *([] if field.default is None else [field.default])], program)
        fields.append(f"    {field.name}: {syntax.source(annotation)}{default}")
    original = f"{made.original.__module__}.{made.original.__qualname__}"
    return _CONFIGURATION.format(name=made.name, original=original, fields="\n".join(fields))


def _arguments(program: Program) -> str:
    """What the root's constructor is given, as source before further arguments."""
    return "".join(f"{name}={syntax.source(value)}, " for name, value in program.arguments.items())


def _call(made: FoldedClass, program: Program, imports: Imports) -> syntax.FunctionDef:
    body = made.body
    assert body is not None
    written = list(body.statements)
    if body.returns is not None:
        written.append(syntax.Return(body.returns))
    lists = {name for name, value in made.attributes.items() if list_lengths({name: value})}
    written = grown(written, made.original, names_in(*body.statements) | {*body.parameters, *lists})
    statements = [imports.read(shortened_calls(statement, {})) for statement in written]
    parameters = (syntax.Parameter("self"), *(_taken(name, made, program, imports) for name in body.parameters))
    returns = _returned(made, body.returns, program, imports)
    return syntax.FunctionDef("__call__", parameters, _or_pass(statements), returns=returns)


def _taken(name: str, made: FoldedClass, program: Program, imports: Imports) -> syntax.Parameter:
    """A parameter of a call, by its name with its stars."""
    own = name.lstrip("*")
    match name.removesuffix(own):
        case "**":
            return syntax.Parameter(own, syntax.Name("Any"), kind="**")
        case "*":
            return syntax.Parameter(own, imports.read(code("jax.Array")), kind="*")
    defaults = [program.options.get(path, {}).get(own) for path in made.members]
    default = next((imports.read(each) for each in defaults if each is not None), None)
    annotation = _annotated(made, program, own)
    if default == syntax.Const(None) and "None" not in syntax.source(annotation):
        annotation = code("a | None", a=annotation)
    return syntax.Parameter(own, imports.read(annotation), default)


def _returned(made: FoldedClass, given: syntax.Expr | None, program: Program, imports: Imports) -> syntax.Expr | None:
    """How it is annotated what a call gives: one array, or anything."""
    if given is None:
        return None
    annotation = _annotated(made, program, RETURN)
    is_one = isinstance(annotation, syntax.Attribute | syntax.Name)
    if is_one and not isinstance(given, syntax.Tuple | syntax.Dict | syntax.List):
        return imports.read(annotation)
    return syntax.Name("Any")


def _annotated(made: FoldedClass, program: Program, name: str) -> syntax.Expr:
    """What all instances are given as an argument, or give: ``jax.Array``, a list of them, or ``Any``."""
    found = {kind for path in made.members for kind in program.annotations.get(path, {}).get(name, ())}
    some = sorted(found - {"None"})
    text = some[0] if len(some) == 1 else "Any" if some else "jax.Array"
    return code(f"{text} | None" if "None" in found and text != "Any" and some else text)


_UNWRITTEN = f'''
def {UNWRITTEN}(what: str) -> Any:
    """Stands where something of PyTorch's has to be written by hand: the original's line is above it."""
    raise NotImplementedError(f"{{what}}: write it here")
'''.strip()

_TABLES = """
# What a new model starts with and no formula gives.
TABLES = Tables(Path(__file__).with_name("{tables}"))
""".strip()

_CONFIGURATION = '''
@dataclass(frozen=True)
class {name}:
    """{original} of PyTorch, what is read of it."""

{fields}
'''.strip()

_LOAD = '''
def load(
    path: str | Path = Path(__file__).with_name("{weights}"), *, rngs: nnx.Rngs | None = None, **options: Any
) -> {root}:
    """The model with its weights; ``options`` are the constructor's."""
    model = {root}({arguments}rngs=rngs or nnx.Rngs(0), **options)
    arrays = load_file(path)
    flat = nnx.to_flat_state(nnx.state(model, nnx.Not(nnx.RngState)))
    filled = [(name, jnp.asarray(arrays[".".join(map(str, name))], variable.dtype)) for name, variable in flat]
    nnx.update(model, nnx.from_flat_state(filled))
    return model
'''.strip()

_MADE = "    model = {root}({arguments}rngs=rngs or nnx.Rngs(0), **options)\n"
_LOAD_LATER = _LOAD.replace(_MADE, "    with filled_later():\n    " + _MADE)
