"""One call of a torch function in a run, and other ways to compute it that Flax's side may use."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Arguments = dict[str, Any]
"""A call's arguments by name; by position, "0", "1", if the function's argument names are unknown."""
Run = Callable[[Callable[..., Any], Arguments], Any]
"""Computes an operation, from the function and the arguments of its call in the run."""

_CONV = "input weight bias stride padding dilation groups"
_CONV_TRANSPOSE = "input weight bias stride padding output_padding groups dilation"
_AVERAGE = "input kernel_size stride padding ceil_mode count_include_pad divisor_override"
_RECURRENT = "input hx params has_biases num_layers dropout train bidirectional batch_first"
_PACKED = "input batch_sizes hx params has_biases num_layers dropout train bidirectional"
_CELL = "input hx w_ih w_hh b_ih b_hh"
_LARGEST = "input kernel_size stride padding dilation ceil_mode return_indices"
_BUILTINS = {
    "linear": "input weight bias",
    "gelu": "input approximate",
    "conv1d": _CONV,
    "conv2d": _CONV,
    "conv3d": _CONV,
    "conv_transpose1d": _CONV_TRANSPOSE,
    "conv_transpose2d": _CONV_TRANSPOSE,
    "conv_transpose3d": _CONV_TRANSPOSE,
    "avg_pool1d": _AVERAGE,
    "avg_pool2d": _AVERAGE,
    "avg_pool3d": _AVERAGE,
    "max_pool1d": _LARGEST,
    "max_pool2d": _LARGEST,
    "max_pool3d": _LARGEST,
    "scaled_dot_product_attention": "query key value attn_mask dropout_p is_causal scale enable_gqa",
    "masked_fill": "input mask value",
    "cat": "tensors dim",
    "concat": "tensors dim",
    "flatten": "input start_dim end_dim",
    "chunk": "input chunks dim",
    "split": "input split_size dim",
    "lstm": _RECURRENT,
    "gru": _RECURRENT,
    "lstm_cell": _CELL,
    "gru_cell": _CELL,
    "_pack_padded_sequence": "input lengths batch_first",
    "_weight_norm": "v g dim",
    "clamp": "input min max",
    "mean": "input dim keepdim dtype",
    "sum": "input dim keepdim dtype",
    "var": "input dim correction keepdim",
    "std": "input dim correction keepdim",
    "amax": "input dim keepdim",
    "amin": "input dim keepdim",
    "logsumexp": "input dim keepdim",
    "argmax": "input dim keepdim",
    "argmin": "input dim keepdim",
    "topk": "input k dim largest sorted",
    "repeat_interleave": "input repeats dim",
    "cumsum": "input dim dtype",
    "stack": "tensors dim",
    "tril": "input diagonal",
    "triu": "input diagonal",
    "unbind": "input dim",
}
"""Argument names of functions without a readable signature: not written in Python, or dispatched on an argument."""
_METHODS = {"softmax": "input dim dtype", "log_softmax": "input dim dtype"}
"""Those of methods that differ from the Python function of the same name."""
_SAME = {
    "__getitem__": "getitem",
    "concat": "cat",
    "true_divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "clip": "clamp",
}


_OPERATORS = {
    "radd": "add",
    "iadd": "add",
    "isub": "sub",
    "rmul": "mul",
    "imul": "mul",
    "truediv": "div",
    "itruediv": "div",
    "rtruediv": "rdiv",
    "ipow": "pow",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
}
"""Names of operators' functions, by the operator's name without underscores."""


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "numel")


@dataclass(frozen=True)
class TorchOperation:
    """One call of a torch function in a run.

    Attributes:
        number: the call's index in the run.
        name: the function's name, without the underscore of in-place functions.
        arguments: the call's arguments.
        layer: the path of the module that called it.
        twin: the Flax layer of that module, if there is one.
        cites: ids of the notes that the pairs of the function and of that module cite.
        result: the call's result.
        function: the function that was called.
        line: the line of the model's own source that calls it, with its text; "" if unknown.
    """

    number: int
    name: str
    arguments: Arguments
    layer: str
    twin: Any = None
    cites: tuple[str, ...] = ()
    result: Any = field(default=None, compare=False, repr=False)
    function: Any = field(default=None, compare=False, repr=False)
    line: str = ""

    @property
    def base(self) -> str:
        """The function's name without operator affixes: "add" for ``__radd__``."""
        name = self.name.strip("_")
        return _OPERATORS.get(name, name)

    @property
    def reads(self) -> bool:
        """Whether it only reads an attribute, as ``x.shape`` does, and is not a step of the model."""
        return self.name in ("__get__", "__set__")

    @property
    def operands(self) -> dict[str, Any]:
        """The tensors among its arguments, by name."""
        return {key: value for key, value in self.arguments.items() if _is_tensor(value)}

    @property
    def said(self) -> str:
        """Its location for readers, appended to a sentence."""
        where = f" in {self.layer}" if self.layer else ""
        return f"{where}, torch's line {self.line}" if self.line else where

    @property
    def input(self) -> Any:
        """The first argument."""
        return next(iter(self.arguments.values()), None)


@dataclass(frozen=True)
class Way:
    """Another way to compute an operation, which Flax's side may use.

    Ways of several operations with the same kind and sentence form one explanation.

    Attributes:
        kind: the cause's stable name.
        why: what Flax does, as a sentence.
        run: computes it.
        remedy: what to change; if "", the remedy of the note that names this kind.
        rank: how unlikely it is: explanations with lower ranks come first.
        together: how many of a run's operations it may apply to at once, besides all of them and one of them.
        cites: ids of candidate notes, those of the operation's pairs, if several notes name this kind.
        where: the location in torch's code, appended to the sentence; "" if the sentence names it.
        chosen: the operations of the run with which the two agreed, and how each was computed; empty before that.
    """

    kind: str
    why: str
    run: Run
    remedy: str = ""
    rank: int = 0
    together: int = 1
    cites: tuple[str, ...] = ()
    where: str = ""
    chosen: Mapping[int, Way] = field(default_factory=dict, compare=False)


Explanation = Callable[[TorchOperation], Iterator[Way]]
"""Yields the other ways to compute an operation for one kind of mistake; none if it does not apply."""


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function: a method, an operator or one of torch.nn.functional."""
    name = getattr(function, "__name__", "")
    if not name.startswith("__"):
        name = name.rstrip("_")
    return _SAME.get(name, name)


def arguments_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Arguments) -> Arguments:
    """Return a call's arguments by name."""
    name = name_of(function)
    if inspect.isfunction(function) and name not in _BUILTINS and name != "unflatten":
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except (TypeError, ValueError):
            return _placed(args, kwargs)
        return dict(bound.arguments)
    known = (_BUILTINS | _METHODS).get(name, "")
    # A packed sequence has its sizes where other sequences have the state.
    names = (_PACKED if known is _RECURRENT and len(args) > 2 and not isinstance(args[2], list) else known).split()
    if len(args) > len(names):
        return _placed(args, kwargs)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _placed(args: tuple[Any, ...], kwargs: Arguments) -> Arguments:
    return {**{str(place): value for place, value in enumerate(args)}, **kwargs}


def do(function: Callable[..., Any], arguments: Arguments) -> Any:
    """Call a function with the arguments of its call."""
    if "0" in arguments or not arguments:
        args = [value for key, value in arguments.items() if key.isdecimal()]
        return function(*args, **{key: value for key, value in arguments.items() if not key.isdecimal()})
    # Pass the first by position: its name differs between a function and a method of the same name.
    first, *others = arguments.items()
    return function(first[1], **dict(others))


def having(**changed: Any) -> Run:
    """Return a run with other arguments."""
    return lambda function, arguments: do(function, {**arguments, **changed})


def of_input(change: Callable[[Any], Any]) -> Run:
    """Return a run with another input."""

    def run(function: Callable[..., Any], arguments: Arguments) -> Any:
        first = next(iter(arguments))
        return do(function, {**arguments, first: change(arguments[first])})

    return run


def together(ways: Sequence[Way]) -> Run:
    """Combine several ways of one operation: each gets the arguments as changed by those before it."""

    def run(function: Callable[..., Any], arguments: Arguments) -> Any:
        inner = function
        for way in reversed(ways):
            inner = _wrapped(way, inner, next(iter(arguments)))
        return do(inner, arguments)

    return run


def _wrapped(way: Way, inner: Callable[..., Any], name: str) -> Callable[..., Any]:
    return lambda first, **others: way.run(inner, {name: first, **others})


def then(change: Callable[[Any], Any]) -> Run:
    """Return a run with another function applied to the result."""
    return lambda function, arguments: change(do(function, arguments))


def instead(compute: Callable[[Any], Any]) -> Run:
    """Return a run that computes something else from the same input."""
    return lambda function, arguments: compute(next(iter(arguments.values())))
