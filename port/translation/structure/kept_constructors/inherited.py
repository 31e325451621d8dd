"""The constructor of a class that inherits the constructor of a torch layer."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from port.translation.frontend.construction.construction_calls import INHERITED
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, literal
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.constructors import common_parameters, own_attribute
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.known import Known, Owner
from port.translation.structure.kept_constructors.reads import attributes_read
from port.translation.structure.kept_constructors.signatures import parameters_of
from port.translation.structure.kept_constructors.statement_writer import StatementWriter

_OF_TORCH = ("device", "dtype")


def inherited_constructor(
    construct: FunctionType, known: Known, owner: Owner, made: FoldedClass, modules: Sequence[Any]
) -> syntax.FunctionDef:
    """Write the constructor: the layer's parameters, the attributes of the class, and those that its call reads.

    Args:
        construct: the layer's constructor.
        known: the construction.
        owner: the class.
        made: the class as it is written.
        modules: its instances, whose numbers remember the arguments.

    Raises:
        CannotKeep: its call reads an attribute that is not one of the arguments.
    """
    own = [each for each in parameters_of(construct, known.values) if each.name not in _OF_TORCH]
    writing = StatementWriter(known, construct, None, owner)
    body = [own_attribute(name, writing.tensor(name, starts)) for name, starts in owner.tensors.items()]
    if made.body is not None and made.body.modes:
        body.insert(0, own_attribute("deterministic", syntax.Const(False)))
    for name in sorted(attributes_read(made) - owner.modules - {"deterministic"}):
        values = (_with_origins(vars(module).get(name)) for module in modules)
        said = {writing.said(known.forms.said((construct, INHERITED), value)) for value in values}
        if len(said) > 1:
            raise CannotKeep(f"{made.name} reads {name}, which is none of its arguments")
        body.append(own_attribute(name, said.pop()))
    parameters = (*own, *common_parameters())
    return syntax.FunctionDef("__init__", parameters, tuple(body) or (syntax.Pass(),), returns=syntax.Const(None))


def _with_origins(value: Any) -> syntax.Expr:
    """Write a number, or a tree of numbers, with their origins.

    Raises:
        CannotKeep: the value has no source form.
    """
    try:
        return literal(value)
    except NoSource:
        raise CannotKeep(f"a {type(value).__name__} has no source form") from None
