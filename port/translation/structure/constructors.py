"""Constructions of layers, parameters and buffers for a constructor: ``nnx.Conv(3, 64, kernel_size=(7, 7), …)``."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from port.errors import NoPair
from port.pairs import LayerPair, name_of
from port.pairs.expression import Expression
from port.pairs.registry import pairs_of_torch, resolve
from port.pairs.twin import twin_pair
from port.translation.ir import syntax
from port.translation.ir.expr import code, dotted, literal, worth
from port.translation.structure.known_arguments import known_arguments

OPTIONS = "options"
"""The constructor's name for ``dtype``, ``param_dtype`` and ``rngs`` together, for layers that take all three."""


_COMMON = ("dtype", "param_dtype", "rngs")


def common_parameters() -> tuple[syntax.Parameter, ...]:
    """The keyword-only parameters that every written constructor has."""
    return (
        syntax.Parameter("dtype", syntax.Name("Any"), syntax.Const(None), kind="name"),
        syntax.Parameter("param_dtype", syntax.Name("Any"), code("jnp.float32"), kind="name"),
        syntax.Parameter("rngs", code("nnx.Rngs"), kind="name"),
    )


def options_gathered() -> syntax.Stmt:
    """The statement that gathers them for layers that take all three."""
    gathered = code("{" + ", ".join(f'"{name}": {name}' for name in _COMMON) + "}")
    return syntax.AnnAssign(syntax.Name(OPTIONS), code("dict[str, Any]"), gathered)


def own_attribute(name: str, value: syntax.Expr) -> syntax.Stmt:
    """Assign an attribute: ``self.name = value``."""
    return syntax.Assign(syntax.Attribute(syntax.Name("self"), name), value)


def layer_form(
    module: Any,
    initializers: dict[str, syntax.Expr] | None = None,
    redrawn: dict[str, syntax.Expr] | None = None,
    known: tuple[Any, Mapping[str, Any]] = (None, {}),
) -> syntax.Expr | None:
    """Write the construction of a layer's twin; None where the twin is a function.

    Args:
        module: the torch layer.
        initializers: arguments → initializers that replace the pair's.
        redrawn: variables to draw again after the construction → their initializers.
        known: the same layer, constructed again with numbers that know their origin, and its constructor's arguments.

    Raises:
        NoPair: an argument has no source form.
    """
    pair = twin_pair(module)
    made = resolve(pair.flax)
    if not isinstance(made, type):
        return None
    anew = {} if known[0] is None else pair.arguments(known[0])
    arguments = {
        name: _argument(value, anew.get(name)) for name, value in known_arguments(pair, module, *known).items()
    }
    taken = inspect.signature(made.__init__).parameters  # type: ignore[misc]
    has_bias = getattr(module, "bias", None) is not None
    for name, initializer in pair.initializers(module).items():
        if name in taken and (has_bias or not name.startswith("bias")):
            arguments[name] = expression_of(initializer)
    if known[0] is not None:
        for name, initializer in pair.initializers(known[0]).items():
            if arguments.get(name) == (made_anew := expression_of(initializer)):
                arguments[name] = made_anew
    arguments |= initializers or {}
    _check_accepted(pair, taken, arguments)
    keywords = [syntax.Keyword(name, value) for name, value in arguments.items()]
    made_so = syntax.Call(code(name_of(pair.flax)), (), (*keywords, *_common(taken)))
    redrawn = redrawn and {name: _at_own_row(made, arguments.get("padding_idx")) for name, made in redrawn.items()}
    return code("port.nn.redrawn(layer, drawn, rngs=rngs)", layer=made_so, drawn=redrawn) if redrawn else made_so


def _at_own_row(drawn: syntax.Expr, padding: syntax.Expr | None) -> syntax.Expr:
    """Let the padding row of an embedding follow the layer's ``padding_idx``, whose number knows its origin."""

    def of(node: syntax.Node) -> syntax.Node:
        match node:
            case syntax.Subscript(syntax.Attribute(syntax.Name("jnp"), "s_"), place) if place == padding:
                return syntax.Subscript(node.value, padding)
        return node

    return syntax.transformed(drawn, of) if isinstance(padding, syntax.Const) else drawn


def _check_accepted(pair: LayerPair, taken: Mapping[str, inspect.Parameter], arguments: Iterable[str]) -> None:
    """Check that the twin's constructor accepts the pair's arguments."""
    common = [name for name in _COMMON if name in taken]
    try:
        inspect.Signature(list(taken.values())[1:]).bind(**dict.fromkeys([*common, *arguments]))
    except TypeError as error:
        raise NoPair(
            f"{name_of(pair.torch)}: its twin {name_of(pair.flax)} rejects the pair's arguments: {error}. "
            "A pair's arguments must be those that the twin takes"
        ) from error


def function_form(module: Any) -> syntax.Expr:
    """Write a function layer as a callable: ``nnx.relu``, ``partial(nnx.gelu, approximate=False)``."""
    pair = twin_pair(module)
    callee = code(name_of(pair.flax))
    arguments = {name: literal(_plain(value)) for name, value in pair.arguments(module).items()}
    if not arguments:
        return callee
    return syntax.Call(
        syntax.Name("partial"), (callee,), tuple(syntax.Keyword(name, value) for name, value in arguments.items())
    )


def has_a_twin(module: Any) -> bool:
    """Whether a module is a layer, whose twin is a module as well."""
    return bool(pairs_of_torch(module)) and not is_function(module)


def is_function(module: Any) -> bool:
    """Whether a layer's twin is a function."""
    return not isinstance(resolve(twin_pair(module).flax), type)


def _argument(value: Any, anew: Any = None) -> syntax.Expr:
    """Write an argument of a layer's twin: a number, or an inner layer, which may be constructed again as well."""
    import torch

    if isinstance(value, torch.nn.Module):
        form = layer_form(value, known=(anew, {}))
        return function_form(value) if form is None else form
    return literal(_plain(value))


def _plain(value: Any) -> Any:
    match value:
        case np.ndarray():
            return code("np.array(items)", items=value.tolist())
        case list() | tuple():
            return tuple(_plain(item) for item in value)
        case np.generic():
            return value.item()
        case None | bool() | int() | float() | complex() | str():
            return value
    if callable(value) and getattr(value, "__module__", "").startswith(("jax", "port", "flax")):
        return code(f"{value.__module__}.{value.__qualname__}")
    raise NoPair(f"argument {value!r} has no source form")


def _common(taken: Any) -> list[syntax.Keyword]:
    if all(name in taken for name in _COMMON):
        return [syntax.Keyword(None, syntax.Name(OPTIONS))]
    return [syntax.Keyword(name, syntax.Name(name)) for name in _COMMON if name in taken]


def expression_of(expression: Expression) -> syntax.Expr:
    """Turn a pair's expression into syntax nodes."""

    def tree(value: Any) -> syntax.Expr:
        if isinstance(value, Expression):
            return expression_of(value)
        return literal(_plain(value))

    assert isinstance(expression.function, str)
    return syntax.Call(
        code(expression.function),
        tuple(map(tree, expression.arguments)),
        tuple(syntax.Keyword(name, tree(argument)) for name, argument in expression.options.items()),
    )


def parameter_form(value: syntax.Expr, *, kind: str = "nnx.Param") -> syntax.Expr:
    """Construct a module's own parameter from its initial value."""
    return code(f"{kind}(value)", value=value)


def buffer_form(value: syntax.Expr) -> syntax.Expr:
    """Construct a module's own buffer from its initial value."""
    return code("Buffer(value)", value=value)


def shortened(call: syntax.Call) -> syntax.Call:
    """Shorten a construction: drop arguments equal to the class's defaults, pass the first ones by position.

    Arguments that are not numbers (a parameter of the enclosing class) are kept.
    """
    made = _class_of(call.func)
    if made is None:
        return _shortened_function(call)
    taken = inspect.signature(made.__init__).parameters  # type: ignore[misc]
    positional = [name for name, parameter in taken.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD][1:]
    arguments: list[syntax.Expr] = []
    keywords: list[syntax.Keyword] = []
    for keyword in call.keywords:
        keyword = _short_size(keyword, made)
        name = keyword.arg
        parameter = taken.get(name or "")
        required = parameter is not None and parameter.default is parameter.empty
        at_place = required and not keywords and name == positional[len(arguments)] and name != "kernel_size"
        if name is not None and at_place and name != "rngs":
            arguments.append(keyword.value)
        elif parameter is None or required or not _is_default(keyword.value, _default_of(parameter)):
            keywords.append(keyword)
    return syntax.Call(call.func, (*call.args, *arguments), tuple(keywords))


def _default_of(parameter: inspect.Parameter) -> Any:
    """A parameter's default; for nnx.ConvTranspose, where strides and dilation default to None, 1."""
    return 1 if parameter.default is None and parameter.name in _ONE else parameter.default


_ONE = ("strides", "kernel_dilation")


def _short_size(keyword: syntax.Keyword, made: type) -> syntax.Keyword:
    """Write one number where a convolution's argument is the same for every axis: ``strides=2``, ``padding=1``."""
    if made.__name__ in ("Conv", "ConvTranspose") and keyword.arg in _EACH_AXIS:
        value = _one_of(keyword.value)
        if keyword.arg == "padding" and isinstance(keyword.value, syntax.Tuple) and value is None:
            value = _one_of(syntax.Tuple(tuple(part for each in keyword.value.elts for part in _parts(each))))
        if value is not None and (keyword.arg != "padding" or made.__module__.startswith("flax")):
            return syntax.Keyword(keyword.arg, value)
    return keyword


_EACH_AXIS = ("strides", "padding", "kernel_dilation")


def _one_of(value: syntax.Expr) -> syntax.Expr | None:
    """The value of all items of a tuple, if they are equal."""
    if not isinstance(value, syntax.Tuple) or any(isinstance(item, syntax.Tuple) for item in value.elts):
        return None
    return value.elts[0] if len(set(value.elts)) == 1 else None


def _parts(value: syntax.Expr) -> tuple[syntax.Expr, ...]:
    return value.elts if isinstance(value, syntax.Tuple | syntax.List) else (value,)


def _shortened_function(call: syntax.Call) -> syntax.Call:
    """Drop a call's arguments that equal the function's defaults."""
    function = _named(call.func)
    try:
        taken = inspect.signature(function).parameters if function is not None else {}
    except (TypeError, ValueError):
        return call
    keywords = tuple(
        k
        for k in call.keywords
        if k.arg is None or k.arg not in taken or not _is_default(k.value, taken[k.arg].default)
    )
    arguments = list(call.args)
    names = list(taken)
    while arguments and len(arguments) <= len(names) and not any(isinstance(a, syntax.Starred) for a in arguments):
        parameter = taken[names[len(arguments) - 1]]
        if parameter.default is parameter.empty or not _is_default(arguments[-1], parameter.default):
            break
        arguments.pop()
    return syntax.Call(call.func, tuple(arguments), keywords)


_ALIASES = {"F": "port.nn.functional", "jnp": "jax.numpy", "nnx": "flax.nnx", "lax": "jax.lax"}
_LIBRARIES = ("jax", "flax", "port")


def _named(callee: syntax.Expr) -> Any:
    if not isinstance(callee, syntax.Attribute):
        return None
    first, _, rest = dotted(callee).partition(".")
    if first not in _ALIASES and first not in _LIBRARIES:
        return None  # such as an array's method: no import belongs to it
    try:
        found = resolve(f"{_ALIASES.get(first, first)}.{rest}")
    except (ImportError, AttributeError, ValueError):
        return None
    return found


def _class_of(callee: syntax.Expr) -> type | None:
    found = _named(callee)
    return found if isinstance(found, type) else None


def _is_default(value: syntax.Expr, default: Any) -> bool:
    try:
        constant = worth(value)
    except ValueError:
        return False
    if default == "VALID":  # padding of zero
        return not np.any(constant)
    if isinstance(constant, tuple) and isinstance(default, int) and not isinstance(default, bool):
        return all(item == default for item in constant)
    return type(constant) is type(default) and bool(constant == default)
