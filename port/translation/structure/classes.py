"""Every module of one's own as a class to be written; instances of one class folded into one."""

from __future__ import annotations

from collections.abc import Sequence

from port.translation.frontend.construction import Construction
from port.translation.frontend.construction.construction_calls import ConstructionCalls
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.class_building import ClassBuilding, SaidOtherwise
from port.translation.structure.held_tensors import Runs, of_all_cases
from port.translation.structure.init_inference import Initial
from port.translation.structure.kept_constructors import KeptBuilding
from port.translation.structure.methods import MethodsDiffer, methods_called, taken_names
from port.translation.structure.own_arguments import ALL, OwnArgument, OwnArguments
from port.translation.structure.program import Program
from port.translation.structure.unreachable import Unreachable
from port.translation.structure.written_calls import written_calls
from port.translation.structure.written_function import Functions


def program_of(
    cases: Sequence[Runs],
    tree: ModuleTree,
    initial: Initial | None = None,
    construction: Construction | None = None,
    fixed: frozenset[OwnArgument] = frozenset(),
    functions: Functions | None = None,
    kept: ConstructionCalls | None = None,
) -> Program:
    """The classes of a module's runs; what differs between them stands behind a condition.

    Args:
        cases: the runs of each example call, by whether they are of training.
        tree: of the modules.
        initial: how their parameters and buffers start, if that was looked at.
        construction: how the original is constructed, if that is known: constructors then take its arguments.
        fixed: those whose values are written as they are.
        functions: those that the runs call.
        kept: the calls of the original's constructors, if these are to be written as their source has them.

    Raises:
        CannotKeep: they cannot be.
    """
    dissolved = {
        path
        for path, module in tree.modules.items()
        if path and tree.kind(path) == "class" and type(module).__module__.startswith("torch.nn.")
    }
    runs = of_all_cases(cases).values()
    methods = methods_called(runs)
    dissolved |= taken_names(methods, runs)
    while True:
        try:
            calls = written_calls(cases, tree, dissolved, functions)
            if kept is not None:
                alone = frozenset(name for original, name in fixed if original is type(tree.root))
                return KeptBuilding(of_all_cases(cases), calls, tree, initial or Initial(), kept, alone).program()
            arguments = OwnArguments(construction, tree, fixed)
            return ClassBuilding(of_all_cases(cases), calls, tree, initial or Initial(), arguments).program()
        except SaidOtherwise as error:
            fixed |= {(error.original, ALL)}
        except MethodsDiffer as error:
            dissolved |= error.methods
        except Unreachable as error:
            lacking = methods.get(error.key, set()) - dissolved
            if lacking:  # written out, what a method makes is there for its caller, given or not
                dissolved |= lacking
                continue
            # One in a Sequential is written out where that is called.
            path = error.key if error.key not in dissolved else error.key.rpartition(".")[0]
            if path in dissolved or not path:
                raise
            dissolved.add(path)
