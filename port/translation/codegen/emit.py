"""A program's classes as the text of a Python module."""

from __future__ import annotations

import ast
import copy
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from port.translation.codegen.imports import Imports
from port.translation.ir.expr import code
from port.translation.ir.lowered import UNWRITTEN
from port.translation.structure.call_tree import RETURN
from port.translation.structure.class_merge import Argument, FoldedClass
from port.translation.structure.classes import Program
from port.translation.structure.constructors import OPTIONS, shortened
from port.translation.structure.init_inference.numbers import readable
from port.translation.structure.list_append import grown
from port.translation.structure.remat import Numbers, checkpointed
from port.translation.structure.reroll_statements import rolled

WIDTH = 120
_BY_PLACE = 2  # arguments: what comes in and what goes out; others say their names
_COMMON = ("dtype", "param_dtype", "rngs")


def render(
    program: Program,
    *,
    title: str,
    weights: str | None = None,
    tables: str = "",
    doubled: bool = False,
    remat: Mapping[str, Numbers] | None = None,
    checks: Sequence[ast.stmt] = (),
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
    imports = Imports(default_float=doubled, taken=[made.name for made in program.classes])
    classes = [_class(made, program, imports, remat or {}) for made in program.classes]
    root = program.classes[-1].name
    if checks:
        _call_of(classes[-1]).body[:0] = [imports.read(check) for check in checks]
    body: list[ast.stmt] = [*classes]
    text = "\n\n\n".join(_text(ast.fix_missing_locations(ast.Module([statement], []))) for statement in body)
    if UNWRITTEN in imports.needed_names(text):
        text = f"{_UNWRITTEN}\n\n\n{text}"
    if "Buffer" in imports.needed_names(text):
        imports.own("Buffer")
    if "TABLES" in imports.needed_names(text):
        text = f"{_TABLES.format(tables=tables)}\n\n\n{text}"
        imports.line("from pathlib import Path")
        imports.own("Tables")
    if weights is not None:
        partly = {"TABLES", "unknown_start"} & imports.needed_names(text)
        text += "\n\n\n" + (_LOAD_LATER if partly else _LOAD).format(root=root, weights=weights)
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


def _class(made: FoldedClass, program: Program, imports: Imports, remat: Mapping[str, Numbers]) -> ast.stmt:
    body: list[ast.stmt] = [_docstring(made)]
    constructor = _constructor(made, {other.name: other for other in program.classes}, imports)
    if constructor is not None:
        body.append(constructor)
    call = None if made.body is None else _call(made, program, imports)
    if made.name in remat:
        body += [imports.read(method) for method in checkpointed(call, remat[made.name])]
    elif call is not None:
        body.append(call)
    base = ast.parse("nnx.Sequential" if made.is_sequential else "nnx.Module", mode="eval").body
    return ast.ClassDef(made.name, [imports.read(base)], [], body, [])


def _docstring(made: FoldedClass) -> ast.stmt:
    return ast.Expr(ast.Constant(f"{made.original.__module__}.{made.original.__qualname__} of PyTorch."))


def _constructor(made: FoldedClass, names: dict[str, FoldedClass], imports: Imports) -> ast.FunctionDef:
    attributes = {name: imports.read(_short(readable(value), names)) for name, value in made.attributes.items()}
    statements: list[ast.stmt] = []
    if made.body is not None and made.body.modes:
        statements.append(_assign("deterministic", ast.Constant(False)))
    kept = [argument for argument in made.arguments if argument.kept]
    for argument in kept:
        statements.append(_assign(argument.name, ast.Name(argument.name)))
    if any(_reads(value, OPTIONS) for value in attributes.values()):
        options = "{" + ", ".join(f'"{name}": {name}' for name in _COMMON) + "}"
        target = ast.AnnAssign(
            ast.Name(OPTIONS), ast.parse("dict[str, Any]", mode="eval").body, ast.parse(options, mode="eval").body, 1
        )
        statements.append(target)
        imports.line("from typing import Any")
    if made.is_sequential:
        call = ast.Call(ast.parse("super().__init__", mode="eval").body, _runs(list(attributes.values())), [])
        statements.append(ast.Expr(call))
    else:
        statements += [_assign(name, value) for name, value in attributes.items()]
    if made.is_frozen:
        statements.append(ast.Expr(imports.read(code("port.nn.frozen(self)"))))
    imports.line("from typing import Any")
    imports.line("import jax.numpy as jnp")
    positional = list(made.arguments)
    defaults = [imports.read(argument.default) for argument in positional if argument.default is not None]
    arguments = ast.arguments(
        [],
        [ast.arg("self"), *(ast.arg(argument.name, _annotation(argument, imports)) for argument in positional)],
        None,
        [
            ast.arg("dtype", ast.Name("Any")),
            ast.arg("param_dtype", ast.Name("Any")),
            ast.arg("rngs", imports.read(ast.parse("nnx.Rngs", mode="eval").body)),
        ],
        [ast.Constant(None), ast.parse("jnp.float32", mode="eval").body, None],  # type: ignore[list-item]
        None,
        defaults,
    )
    return ast.FunctionDef("__init__", arguments, statements or [ast.Pass()], [], ast.Constant(None), lineno=0)  # type: ignore[call-arg]


def _call_of(made: ast.stmt) -> ast.FunctionDef:
    """The ``__call__`` of a class."""
    functions = (node for node in ast.walk(made) if isinstance(node, ast.FunctionDef))
    return next(function for function in functions if function.name == "__call__")


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.parse(f"self.{name}", mode="eval").body], value, lineno=0)


def _annotation(argument: Argument, imports: Imports) -> ast.expr:
    if argument.is_module:
        return ast.Name("Any")
    kinds = {type(ast.literal_eval(value)).__name__ for value in argument.values.values()}
    kinds = {"float"} if kinds == {"int", "float"} else kinds
    return ast.parse(" | ".join(sorted(kinds)).replace("NoneType", "None"), mode="eval").body


def _call(made: FoldedClass, program: Program, imports: Imports) -> ast.FunctionDef:
    body = made.body
    assert body is not None
    parameters, star, keywords = [], None, None
    for name in body.parameters:
        own = name.lstrip("*")
        if name.startswith("**"):
            keywords = ast.arg(own, ast.Name("Any"))
        elif name.startswith("*"):
            star = ast.arg(own, imports.read(ast.parse("jax.Array", mode="eval").body))
        else:
            parameters.append(ast.arg(own, imports.read(_annotated(made, program, own))))
    arguments = ast.arguments([], [ast.arg("self"), *parameters], star, [], [], keywords, [])
    taken = {node.id for statement in body.statements for node in ast.walk(statement) if isinstance(node, ast.Name)}
    lengths = {name: length for name, value in made.attributes.items() if (length := _length(value))}
    written = rolled(body.statements, lengths, taken)
    if body.returns is not None:
        written.append(ast.Return(body.returns))
    written = grown(written, made.original, taken | {*body.parameters, *lengths})
    statements = [imports.read(_short(statement, {})) for statement in written]
    returns = None
    if body.returns is not None:
        given = _annotated(made, program, RETURN)
        is_one = isinstance(given, ast.Attribute | ast.Name) and not isinstance(
            body.returns, ast.Tuple | ast.Dict | ast.List
        )
        returns = imports.read(given) if is_one else ast.Name("Any")
    return ast.FunctionDef("__call__", arguments, statements or [ast.Pass()], [], returns, lineno=0)  # type: ignore[call-arg]


def _length(value: ast.expr) -> int | None:
    """How many items an nnx.List is made of."""
    match value:
        case ast.Call(func=ast.Attribute(attr="frozen"), args=[made]):
            return _length(made)
        case ast.Call(func=ast.Attribute(attr="List"), args=[ast.List(elts=items)]):
            return len(items)
    return None


def _annotated(made: FoldedClass, program: Program, name: str) -> ast.expr:
    """What all instances are given as an argument, or give: ``jax.Array``, a list of them, or ``Any``."""
    found = {kind for path in made.members for kind in program.annotations.get(path, {}).get(name, ())}
    some = sorted(found - {"None"})
    text = some[0] if len(some) == 1 else "Any" if some else "jax.Array"
    return ast.parse(f"{text} | None" if "None" in found and text != "Any" and some else text, mode="eval").body


def _short(tree: Any, names: dict[str, FoldedClass]) -> Any:
    class Shortening(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.func, ast.Name) and node.func.id in names:
                return _own_call(node, names[node.func.id])
            return _repeated(shortened(node))

    return Shortening().visit(copy.deepcopy(tree))


def _own_call(node: ast.Call, made: FoldedClass) -> ast.Call:
    """A construction of one of our classes: first what has to be given, then by name what is not the default."""
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    required = [argument.name for argument in made.arguments if argument.default is None]
    arguments = [given[name] for name in required[:_BY_PLACE]]
    keywords = [ast.keyword(name, given[name]) for name in required[_BY_PLACE:]]
    keywords += [
        ast.keyword(argument.name, given[argument.name])
        for argument in made.arguments
        if argument.default is not None and ast.dump(given[argument.name]) != ast.dump(argument.default)
    ]
    return ast.Call(node.func, arguments, [*keywords, ast.keyword(None, ast.Name(OPTIONS))])


def _repeated(node: ast.Call) -> ast.Call:
    """Equal children of a Sequential or a list as a comprehension: ``*[Block(64) for _ in range(36)]``."""
    is_list = ast.unparse(node.func) == "nnx.List"
    is_sequence = ast.unparse(node.func) in ("nnx.Sequential", "flax.nnx.Sequential")
    if is_list and node.args and isinstance(node.args[0], ast.List):
        runs = _runs(node.args[0].elts)
        if len(runs) == 1 and isinstance(runs[0], ast.Starred):
            return ast.Call(node.func, [runs[0].value], [])
        return ast.Call(node.func, [ast.List(runs, ast.Load())], [])
    if is_sequence:
        return ast.Call(node.func, _runs(node.args), node.keywords)
    return node


def _runs(items: list[ast.expr]) -> list[ast.expr]:
    made: list[ast.expr] = []
    number = 0
    while number < len(items):
        end = number
        while end < len(items) and ast.dump(items[end]) == ast.dump(items[number]):
            end += 1
        if end - number > 2 and isinstance(items[number], ast.Call):
            loop = ast.comprehension(ast.Name("_"), ast.parse(f"range({end - number})", mode="eval").body, [], 0)
            made.append(ast.Starred(ast.ListComp(items[number], [loop]), ast.Load()))
        else:
            made += items[number:end]
        number = end
    return made


def _reads(tree: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))


def _text(module: ast.Module) -> str:
    """Source; names that begin with a # are comments as they stand."""
    return ast.unparse(module)


_UNWRITTEN = f'''
def {UNWRITTEN}(what: str) -> Any:
    """Stands where something of PyTorch's has to be written by hand: the original's line is above it."""
    raise NotImplementedError(f"{{what}}: write it here")
'''.strip()

_TABLES = """
# What a new model starts with and no formula gives.
TABLES = Tables(Path(__file__).with_name("{tables}"))
""".strip()

_LOAD = '''
def load(
    path: str | Path = Path(__file__).with_name("{weights}"), *, rngs: nnx.Rngs | None = None, **options: Any
) -> {root}:
    """The model with its weights; ``options`` are the constructor's."""
    model = {root}(rngs=rngs or nnx.Rngs(0), **options)
    arrays = load_file(path)
    flat = nnx.to_flat_state(nnx.state(model, nnx.Not(nnx.RngState)))
    filled = [(name, jnp.asarray(arrays[".".join(map(str, name))], variable.dtype)) for name, variable in flat]
    nnx.update(model, nnx.from_flat_state(filled))
    return model
'''.strip()

_MADE = "    model = {root}(rngs=rngs or nnx.Rngs(0), **options)\n"
_LOAD_LATER = _LOAD.replace(_MADE, "    with filled_later():\n    " + _MADE)
