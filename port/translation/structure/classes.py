"""Every user-defined module as a class to write; instances of one class are folded into one."""

from __future__ import annotations

from collections.abc import Sequence

from port.translation.frontend.construction import Construction
from port.translation.frontend.construction.construction_calls import ConstructionCalls
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.class_building import ClassBuilding, InconsistentArguments
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
    """Build the classes for the graphs of a module; what differs between example calls goes under conditions.

    Args:
        cases: the graphs of each example call, by whether they are for training.
        tree: the module tree.
        initial: the initial values of parameters and buffers, if known.
        construction: how the original is constructed, if known: constructors then take its arguments.
        fixed: arguments whose values are written as literals.
        functions: the functions that the graphs call.
        kept: the original's constructor calls, if the constructors are to be translated from their source.

    Raises:
        CannotKeep: a constructor cannot be translated from its source.
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
        except InconsistentArguments as error:
            fixed |= {(error.original, ALL)}
        except MethodsDiffer as error:
            dissolved |= error.methods
        except Unreachable as error:
            lacking = methods.get(error.key, set()) - dissolved
            if lacking:  # once inlined, all that a method computes is available to its caller
                dissolved |= lacking
                continue
            # A method of a module in a Sequential is inlined where that is called.
            path = error.key if error.key not in dissolved else error.key.rpartition(".")[0]
            if path in dissolved or not path:
                raise
            dissolved.add(path)
