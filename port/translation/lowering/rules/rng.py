"""What draws random numbers: it takes its keys from the module's ``rngs``; a dropout becomes a layer of the module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.errors import NoPair
from port.translation.ir import syntax
from port.translation.ir.expr import code, held
from port.translation.ir.graph import Operation, Value
from port.translation.ir.layout import Layout, torchs
from port.translation.ir.lowered import Assignment
from port.translation.lowering.rules.broadcast import together
from port.translation.lowering.rules.cast import jax_dtype

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _dropout(stage: LoweringContext, operation: Operation) -> None:
    """A functional dropout: an nnx.Dropout of the module whose code it stands in."""
    value: Value = operation.arguments["input"]
    rate, result = operation.arguments["p"], operation.results[0]
    layout = stage.layout(value)
    if not operation.arguments["train"] or rate == 0:
        stage.alias(result, value, layout)
        return
    if len(operation.results) > 1 and stage.is_read(operation.results[1]):
        raise NoPair("the mask that a dropout has drawn is used")
    name = stage.extra("dropout", code("nnx.Dropout(rate, rngs=rngs)", rate=rate))
    # In evaluation torch drops only where it is told to do so whatever the mode.
    template = "layer(x)" if stage.training else "layer(x, deterministic=False)"
    expression = code(template, layer=held(stage.scope, name), x=stage.ref(value))
    stage.note("W25")
    if rate < 1:
        stage.draws.append(layout)
    stage.give(result, expression, layout, follows=value)


def _attention(stage: LoweringContext, operation: Operation) -> None:
    """Attention whose weights are dropped: by an nnx.Dropout of the module."""
    from port.translation.lowering.rules.from_pair import from_pair

    rate = operation.arguments["dropout_p"]
    from_pair(stage, replace(operation, arguments={**operation.arguments, "dropout_p": 0.0}))
    if not rate:
        return
    name = stage.extra("dropout", code("nnx.Dropout(rate, rngs=rngs)", rate=rate))
    # In evaluation torch drops here whatever the mode.
    always = "" if stage.training else ", deterministic=False"
    made = stage.placed.steps[-1]
    assert isinstance(made, Assignment)
    match made.expression:
        case syntax.BinOp(weights, "@", _) as product:
            dropped = code(f"dropout(weights{always})", dropout=held(stage.scope, name), weights=weights)
            expression: syntax.Expr = replace(product, left=dropped)
        case syntax.Call(keywords=keywords) as attention:
            template = f"lambda weights: dropout(weights{always})" if always else "dropout"
            dropout = syntax.Keyword("dropout", code(template, dropout=held(stage.scope, name)))
            expression = replace(attention, keywords=(*keywords, dropout))
        case other:
            raise AssertionError(f"attention is written otherwise: {syntax.source(other)}")
    stage.placed.steps[-1] = replace(made, expression=expression)
    stage.note("W25")
    if rate < 1:
        # The weights have the result's axes, but for the last one.
        stage.draws.append(stage.layout(operation.results[0]))


def _drawn(template: str, *names: str) -> Callable[[LoweringContext, Operation], None]:
    """Numbers of a distribution; ``template`` says them for a key, a shape and a dtype."""

    def rule(stage: LoweringContext, operation: Operation) -> None:
        result = operation.results[0]
        like = operation.arguments.get("self")
        layout, shape = _shape(stage, like if isinstance(like, Value) else None, operation)
        given: dict[str, Any] = {name: _number(stage, operation.arguments.get(name)) for name in names}
        dtype = code(f"jnp.{jax_dtype(result.dtype)}")
        if isinstance(like, Value) and like.dtype == result.dtype and not _is_empty(stage, like):
            dtype = code("x.dtype", x=stage.ref(like))
        stage.note("W25")
        stage.draws.append(layout)
        expression = code(template, key=_key(stage), shape=shape, dtype=dtype, **given)
        follows = like if isinstance(like, Value) and stage.layout(like) == layout else None
        stage.give(result, expression, layout, follows=follows)

    return rule


def _spread(stage: LoweringContext, operation: Operation) -> None:
    """Numbers of a normal distribution of which each has its own mean or deviation."""
    mean, std = (operation.arguments[name] for name in ("mean", "std"))
    result = operation.results[0]
    operands = [value for value in (mean, std) if isinstance(value, Value) and value.shape is not None]
    layout, expressions, leader = together(stage, operands)
    fitting = dict(zip(operands, expressions, strict=True))
    if len(operands) == 1 or operands[0].shape == operands[1].shape:
        shape = code("x.shape", x=fitting[leader])
    else:
        shape = code("jnp.broadcast_shapes(x.shape, y.shape)", x=expressions[0], y=expressions[1])
    stage.note("W25")
    stage.draws.append(layout)
    mean, std = (fitting[v] if isinstance(v, Value) and v in fitting else _number(stage, v) for v in (mean, std))
    dtype = code(f"jnp.{jax_dtype(result.dtype)}")
    drawn = code("jax.random.normal(key, shape, dtype)", key=_key(stage), shape=shape, dtype=dtype)
    expression = code("jax.lax.stop_gradient(mean + std * drawn)", drawn=drawn, mean=mean, std=std)
    stage.give(result, expression, layout)


def _bernoulli(stage: LoweringContext, operation: Operation) -> None:
    """One where a number drawn is below the probability that its place has."""
    value, result = operation.arguments["self"], operation.results[0]
    layout = stage.layout(value)
    stage.draws.append(layout)
    expression = code("jax.random.bernoulli(key, p).astype(p.dtype)", key=_key(stage), p=stage.ref(value))
    stage.give(result, expression, layout, follows=value)


def _empty(stage: LoweringContext, operation: Operation) -> None:
    """Memory that is written to: zeros."""
    result = operation.results[0]
    like = operation.arguments.get("self")
    layout, shape = _shape(stage, _origin(operation), operation)
    dtype = code(f"jnp.{jax_dtype(result.dtype)}")
    if isinstance(like, Value) and like.dtype == result.dtype:
        dtype = code("x.dtype", x=stage.ref(like))
    stage.give(result, code("jnp.zeros(shape, dtype)", shape=shape, dtype=dtype), layout)


def _shape(
    stage: LoweringContext, like: Value | None, operation: Operation
) -> tuple[Layout, syntax.Expr | tuple[Any, ...]]:
    if like is not None and like.shape is not None and like.shape == operation.results[0].shape:
        if not _is_empty(stage, like):
            return stage.layout(like), code("x.shape", x=stage.ref(like))
        return _shape(stage, _origin(stage.producers[like]), stage.producers[like])
    sizes = operation.arguments.get("size", ())
    return torchs(operation.results[0].rank), tuple(stage.ref(size) for size in sizes)


def _is_empty(stage: LoweringContext, value: Value) -> bool:
    """Whether it is memory that was made to be filled."""
    made = stage.producers.get(value)
    return made is not None and "empty" in made.operator


def _origin(operation: Operation) -> Value | None:
    like = operation.arguments.get("self")
    return like if isinstance(like, Value) and "size" not in operation.arguments else None


def _number(stage: LoweringContext, number: Any) -> Any:
    return stage.ref(number) if isinstance(number, Value) else number


def _key(stage: LoweringContext) -> syntax.Expr:
    name = stage.extra("rngs", syntax.Name("rngs"))
    return syntax.Call(held(stage.scope, name))


_UNIFORM = "jax.random.uniform(key, shape, dtype)"
_NORMAL = "jax.random.normal(key, shape, dtype)"
_BETWEEN = "jax.random.randint(key, shape, low, high, dtype)"

RULES = {
    **dict.fromkeys(("aten.dropout", "aten.native_dropout"), _dropout),
    "aten.scaled_dot_product_attention": _attention,
    **dict.fromkeys(("aten.rand", "aten.rand_like"), _drawn(_UNIFORM)),
    **dict.fromkeys(("aten.randn", "aten.randn_like"), _drawn(_NORMAL)),
    "aten.randint": _drawn("jax.random.randint(key, shape, 0, high, dtype)", "high"),
    "aten.randint.low": _drawn(_BETWEEN, "low", "high"),
    "aten.randint_like": _drawn("jax.random.randint(key, shape, 0, high, dtype)", "high"),
    "aten.randint_like.low_dtype": _drawn(_BETWEEN, "low", "high"),
    "aten.uniform": _drawn("jax.random.uniform(key, shape, dtype, low, high)", "low", "high"),
    "aten.normal_functional": _drawn("mean + std * jax.random.normal(key, shape, dtype)", "mean", "std"),
    "aten.normal.float_float": _drawn("mean + std * jax.random.normal(key, shape, dtype)", "mean", "std"),
    **dict.fromkeys(("aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor"), _spread),
    "aten.exponential": _drawn("jax.random.exponential(key, shape, dtype) / lambd", "lambd"),
    "aten.bernoulli.p": _drawn("jax.random.bernoulli(key, p, shape).astype(dtype)", "p"),
    "aten.bernoulli.default": _bernoulli,
    **dict.fromkeys(("aten.empty", "aten.empty_like", "aten.new_empty", "aten.empty_strided"), _empty),
}


def _renamed(
    rule: Callable[[LoweringContext, Operation], None], **names: str
) -> Callable[[LoweringContext, Operation], None]:
    def with_names(stage: LoweringContext, operation: Operation) -> None:
        arguments = {names.get(name, name): value for name, value in operation.arguments.items()}
        rule(stage, Operation(operation.operator, arguments, operation.results, operation.several, operation.place))

    return with_names


RULES["aten.uniform"] = _renamed(RULES["aten.uniform"], **{"from": "low", "to": "high"})
