"""What the translations of the zoo keep of the originals' code: a line a module, the totals, and the worst five.

    python -m tests.benchmarks.constructors [NAME …] [--minutes 25]

Of each module it counts, kept / all:

    parameters    of the constructors of the original's classes
    loops         and comprehensions in their ``__init__``, their ``forward`` and the methods that it calls
    methods       that a ``forward`` calls of its own module, and those that these call
    functions     of the original's own that a ``forward`` calls by name, and those that these call
    literals      numbers in the source's ``__call__`` that no ``forward`` of the original, and no function, has
    lines         of the source's definitions / of the original's: no docstrings and no comments, one line a statement

Statements that only refuse an input are not counted; nor are numbers of axes, which are others where the channels are
last, and the zeros of `jnp.pad`, which takes a width for every axis where torch takes those of the padded ones.
Both sides are not compared here: `test_zoo.py` does that.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import textwrap
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import jax
import torch

import port

from ..port.translation.zoo import EXAMPLES, Example

WORST, STRIDE = 5, 5
SHORT = 0.001  # seconds of comparing: next to nothing
Tree = ast.FunctionDef | ast.ClassDef
COUNTS = ("parameters", "loops", "methods", "functions")


@dataclass
class Kept:
    """What a translation keeps of a module.

    Attributes:
        name: of the module.
        kept: of the parameters, the loops, the methods and the functions, how many the source has.
        all: how many the original has.
        literals: numbers in calls that the original does not have.
        lines: of the source, and of the original.
        lost: what is not kept, by name.
        reasons: why constructors have fewer arguments.
    """

    name: str
    kept: Counter[str] = field(default_factory=Counter)
    all: Counter[str] = field(default_factory=Counter)
    literals: list[str] = field(default_factory=list)
    lines: tuple[int, int] = (0, 0)
    lost: list[str] = field(default_factory=list)
    reasons: tuple[str, ...] = ()

    @property
    def misses(self) -> int:
        """How many things are another's: lost ones, and new literals."""
        return self.all.total() - self.kept.total() + len(self.literals)

    def __str__(self) -> str:
        shares = [f"{self.kept[what]:4d}/{self.all[what]:<4d}" for what in COUNTS]
        return f"{self.name:32s}{'  '.join(shares)}{len(self.literals):6d}  {self.lines[0]:6d}/{self.lines[1]:<6d}"


# %% Reading both sides


def parsed(thing: Any) -> Tree:
    """The definition of a class or a function, without docstrings."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    assert isinstance(tree, Tree)
    return without_docstrings(tree)


def without_docstrings(tree: Any) -> Any:
    """A tree whose definitions have no docstrings; it is changed in place."""
    for node in ast.walk(tree):
        if isinstance(node, Tree) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def methods_of(tree: Tree) -> dict[str, ast.FunctionDef]:
    """The methods of a class."""
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def parameters_of(method: ast.FunctionDef | None) -> list[str]:
    """A constructor's parameters, without ``self`` and without those that gather others."""
    if method is None:
        return []
    given = method.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)][1:]


def loops_in(method: ast.FunctionDef | None) -> int:
    """Loops and comprehensions."""
    kinds = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    return 0 if method is None else sum(isinstance(node, kinds) for node in ast.walk(method))


def numbers_in(tree: ast.AST) -> Iterator[int | float]:
    """The numbers that a tree says, but for those of statements that only refuse an input."""
    if isinstance(tree, ast.Assert | ast.Raise) or (isinstance(tree, ast.If) and isinstance(tree.body[0], ast.Raise)):
        return
    if isinstance(tree, ast.Expr) and ast.unparse(tree).startswith("F.expect("):
        return
    if isinstance(tree, ast.Constant) and type(tree.value) in (int, float):
        yield tree.value
    for child in ast.iter_child_nodes(tree):
        inside = () if _is_axis(child, tree) else numbers_in(child)
        yield from filter(None, inside) if _name_called(tree) in PADS else inside


AXES = ("expand_dims", "swapaxes", "moveaxis", "transpose", "squeeze", "unstack")
PADS = ("jnp.pad", "lax.pad")


def _name_called(tree: ast.AST) -> str:
    """What a call calls: ``jnp.pad``."""
    return ast.unparse(tree.func) if isinstance(tree, ast.Call) else ""


def _is_axis(child: ast.AST, parent: ast.AST) -> bool:
    """Whether a part of an expression says which axes are meant, and nothing else."""
    match parent:
        case ast.keyword(arg="axis" | "axes"):
            return True
        case ast.Subscript(ast.Attribute(attr="shape")):
            return child is parent.slice
        case ast.Call(ast.Attribute(of, name), arguments) if name in AXES:
            is_function = isinstance(of, ast.Name) and of.id == "jnp"
            return child in arguments[int(is_function) :]
    return False


def lines_of(tree: ast.AST) -> int:
    """How many lines it has where no statement has two."""
    return len([line for line in ast.unparse(tree).splitlines() if line.strip()])


def own_classes(module: torch.nn.Module) -> list[type]:
    """The classes of a module, and of those inside, that are not PyTorch's."""
    found = dict.fromkeys(type(inner) for inner in module.modules())
    return [cls for cls in found if not cls.__module__.startswith("torch.")]


def methods_called(methods: dict[str, ast.FunctionDef]) -> list[str]:
    """The methods of a class that its ``forward`` calls of its own module, and those that these call."""
    found, waiting = list[str](), ["forward"]
    while waiting:
        for node in ast.walk(methods.get(waiting.pop(), ast.Pass())):
            match node:
                case ast.Call(ast.Attribute(ast.Name("self"), name)) if name in methods and name not in found:
                    found.append(name)
                    waiting.append(name)
    return [name for name in found if name != "forward"]


def own_functions(tree: ast.AST, known: dict[str, Any], found: dict[FunctionType, ast.FunctionDef]) -> None:
    """Find the functions of the original's own that a tree calls by name, and those that these call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = known.get(node.func.id)
            is_own = isinstance(function, FunctionType) and not function.__module__.startswith("torch.")
            if is_own and function not in found:
                inside = parsed(function)
                assert isinstance(inside, ast.FunctionDef)
                found[function] = inside
                own_functions(inside, function.__globals__, found)


# %% One module


def counted(example: Example) -> Kept:
    """Translate a module, and count what is kept."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = example.build()
    args, kwargs = example.inputs()
    made = port.translate(module, args, kwargs, construct=example.build, time_limit=SHORT)
    kept = Kept(example.name, reasons=tuple(made.settings.lines))
    source = without_docstrings(ast.parse(made.source))
    definitions = {node.name: node for node in source.body if isinstance(node, Tree) and node.name != "load"}
    classes = {cls: parsed(cls) for cls in own_classes(module)}
    functions: dict[FunctionType, ast.FunctionDef] = {}
    for cls, tree in classes.items():
        forward = methods_of(tree).get("forward")
        if forward is not None:
            own_functions(forward, cls.forward.__globals__, functions)  # type: ignore[attr-defined]
    for cls, tree in classes.items():
        of_class = [name for name, each in made.originals.items() if (each.name, each.module) == named(cls)]
        _of_class(kept, cls, methods_of(tree), [methods_of(definitions[name]) for name in of_class])
    for function in functions:
        kept.all["functions"] += 1
        if any((each.name, each.module) == named(function) for each in made.originals.values()):
            kept.kept["functions"] += 1
        else:
            kept.lost.append(f"function {function.__name__}")
    said = {number for tree in (*classes.values(), *functions.values()) for number in _in_calls(tree)}
    for name, tree in definitions.items():
        if name in made.originals and not made.originals[name].is_own:
            continue  # a layer of PyTorch's that Flax has none of
        kept.literals += [f"{name}: {number}" for number in _in_calls(tree) if number not in said]
    kept.lines = sum(map(lines_of, definitions.values())), sum(map(lines_of, (*classes.values(), *functions.values())))
    return kept


def named(definition: Any) -> tuple[str, str]:
    """A definition's name and its module's, as the translation has them."""
    return definition.__name__, definition.__module__


def _in_calls(tree: Tree) -> list[int | float]:
    """The numbers of a function, or of all methods of a class but the constructor."""
    if isinstance(tree, ast.FunctionDef):
        return list(numbers_in(tree))
    methods = methods_of(tree).items()
    return [number for name, method in methods if name != "__init__" for number in numbers_in(method)]


def _of_class(
    kept: Kept, cls: type, theirs: dict[str, ast.FunctionDef], ours: list[dict[str, ast.FunctionDef]]
) -> None:
    """Count the parameters and the loops of a class; one that several were written from keeps what any of these has."""
    there = {name for methods in ours for name in parameters_of(methods.get("__init__"))}
    for name in parameters_of(theirs.get("__init__")):
        kept.all["parameters"] += 1
        kept.kept["parameters"] += name in there
        if name not in there:
            kept.lost.append(f"{cls.__name__}({name})" + ("" if ours else ", a class that is not written"))
    called = methods_called(theirs)
    for name in called:
        kept.all["methods"] += 1
        kept.kept["methods"] += any(name in methods for methods in ours)
        if not any(name in methods for methods in ours):
            kept.lost.append(f"method {cls.__name__}.{name}")
    for method, twin in (("__init__", "__init__"), ("forward", "__call__")):
        more = [] if method == "__init__" else called
        count = sum(loops_in(theirs.get(name)) for name in (method, *more))
        found = max((sum(loops_in(methods.get(name)) for name in (twin, *more)) for methods in ours), default=0)
        kept.all["loops"] += count
        kept.kept["loops"] += min(count, found)
        if found < count:
            kept.lost.append(f"{count - found} loops of {cls.__name__}.{method}")


# %% The table


def report(rows: list[Kept]) -> None:
    """Print the totals, and the worst modules with what they lose."""
    total = Kept(f"all {len(rows)}")
    for row in rows:
        total.kept += row.kept
        total.all += row.all
        total.literals += row.literals
        total.lines = total.lines[0] + row.lines[0], total.lines[1] + row.lines[1]
    print(total)
    for row in sorted(rows, key=lambda row: -row.misses)[:WORST]:
        print(f"\n{row.name}: {row.misses} not as in the original")
        for line in (*row.lost, *(f"new in {literal}" for literal in row.literals), *row.reasons):
            print(f"  {line}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of modules; all by default")
    parser.add_argument("--minutes", type=float, default=25.0, help="behind which no further module is begun")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    ends = time.monotonic() + 60 * given.minutes
    chosen = [each for each in EXAMPLES if not each.refused and (not given.names or each.name in given.names)]
    chosen = [each for first in range(STRIDE) for each in chosen[first::STRIDE]]  # of every family, if time is short
    print(f"{'':32s}parameters   loops      methods    functions  literals   lines")
    rows = []
    for example in chosen:
        if time.monotonic() > ends:
            print(f"{len(chosen) - chosen.index(example)} modules are left out: the time is over")
            break
        try:
            rows.append(counted(example))
            print(rows[-1], flush=True)
        except Exception as error:
            print(f"{example.name:32s}{type(error).__name__}: {str(error)[:80]}", flush=True)
        jax.clear_caches()
    report(rows)


if __name__ == "__main__":
    main()
