"""Examines what a pickle would do, without doing it: it is a program for a small machine, which is walked symbolically.

A reader that runs nothing from a file still does what the file says with what it allows: it hashes tuples nested a
million deep, and makes a bytearray of any length. So the program is examined first: what it names, what it calls, and
how much that would make.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

MOST_OPERATIONS = 2_000_000
"""The most operations of a pickle. A state dict has about 25 per tensor."""
MOST_WORK = 50_000_000
"""The most elements hashed, copied or made by calls, beside one for each byte of the file."""
DEEPEST_TUPLE = 50
MOST_NAMES = 1000
"""The most classes and functions that stubs may replace."""
_STUB = "a stub"

_REBUILDS = {
    f"torch._utils.{name}"
    for name in (
        "_rebuild_tensor",
        "_rebuild_tensor_v2",
        "_rebuild_tensor_v3",
        "_rebuild_parameter",
        "_rebuild_parameter_with_state",
    )
}
_CALLS = _REBUILDS | {
    "collections.OrderedDict",
    "collections.Counter",
    "builtins.set",
    "builtins.complex",
    "builtins.bytearray",
    "_codecs.encode",
    "torch.Size",
    "torch.device",
    "torch._tensor._rebuild_from_type_v2",
}
_NAMES = re.compile(
    r"torch\.(cuda\.|storage\.)?\w+Storage|torch\.(bool|(bfloat|float|complex|u?int)\d\w*)|torch\.Tensor"
    r"|torch\.nn\.parameter\.Parameter"
)
_PLAIN = {"NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "BINFLOAT", "BINUNICODE", "LONG1"}
_PLAIN |= {"SHORT_BINSTRING", "BINSTRING"}
_PUTS, _GETS = {"BINPUT", "LONG_BINPUT"}, {"BINGET", "LONG_BINGET"}
_MARKERS = {"PROTO", "STOP"}
_NEWER_PLAIN = {"SHORT_BINUNICODE", "SHORT_BINBYTES", "BINBYTES"}


def is_name_of_data(name: str) -> bool:
    """Whether a name is a dtype, a storage's class or a tensor's: it is only named, and never called."""
    return bool(_NAMES.fullmatch(name))


class Refused(ValueError):
    """A pickle that is rejected, with the reason. ``names``: what it wanted to run, if that is the reason."""

    def __init__(self, reason: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.names = names


@dataclass(slots=True)
class _Piece:
    """A symbolic object: its size with everything in it, and the facts that matter."""

    value: Any = None  # text, a number; a name that was looked up; a tuple's pieces; otherwise the kind of object
    kind: str = "object"  # or "plain", "name", "tuple"
    size: int = 1
    depth: int = 0


_Step = Callable[["Walk", list[Any], Any], None]


@dataclass
class Walk:
    """One walk over consecutive pickles in a file.

    Args:
        file: positioned at the first pickle; its ``read`` must not allocate more than is there.
        limit: the file's size in bytes, which nothing in it can exceed.
        on_storage: called for each storage that a tensor needs: its key, its type's name, its number of elements.
        stubs: allow what no state dict needs, for a reader that replaces it by stubs; otherwise it is rejected.
        newer: also allow the operations of Python's newer pickles (protocols 3 to 5).

    Attributes:
        names: what it names that no state dict needs.
    """

    file: IO[bytes]
    limit: int
    on_storage: Callable[[str, str, int], None] | None = None
    stubs: bool = False
    newer: bool = False
    names: list[str] = field(default_factory=list)
    work: int = 0
    operations: int = 0

    def pickle(self) -> Any:
        """Walk over one pickle, and leave the file positioned after it.

        Returns:
            Its result, if that is text or a number; otherwise None.

        Raises:
            Refused: it names or does what no state dict needs, or is not a complete pickle.
        """
        stack: list[Any] = []
        try:
            self._walk(stack)
            result: _Piece = stack[-1]
        except Refused as refusal:
            raise self._wanted() or refusal from None
        except (ValueError, IndexError, KeyError, AttributeError, TypeError) as error:
            raise self._wanted() or Refused(f"it is not a complete pickle: {error or type(error).__name__}") from error
        wanted = self._wanted()
        if wanted and not self.stubs:
            raise wanted
        return result.value if result.kind == "plain" else None

    def _wanted(self) -> Refused | None:
        if not self.names:
            return None
        return Refused(f"it wants to run {', '.join(self.names)}", tuple(self.names))

    def _walk(self, stack: list[Any]) -> None:
        memo: dict[Any, _Piece] = {}
        for operation, argument, _ in pickletools.genops(self.file):
            self.operations += 1
            if self.operations > MOST_OPERATIONS:
                raise Refused(f"its pickle has more than {MOST_OPERATIONS} operations")
            name = operation.name
            if name in _PLAIN:
                stack.append(_Piece(argument, "plain", len(argument) if isinstance(argument, str) else 1))
            elif name in _PUTS:
                if int(argument or 0) > self.operations:  # Python's reader allocates all up to it
                    raise Refused(f"its pickle uses memo number {argument}, more than its operations")
                memo[argument] = stack[-1]
            elif name in _GETS:
                stack.append(memo[argument])
            elif self.newer and name in _NEWER_PLAIN:
                stack.append(_Piece(argument, "plain", len(argument or "")))
            elif self.newer and name == "MEMOIZE":
                memo[len(memo)] = stack[-1]
            elif self.newer and name == "STACK_GLOBAL":
                last, first = stack.pop(), stack.pop()
                stack.append(self._named(f"{first.value} {last.value}"))
            elif name in _STEPS:
                _STEPS[name](self, stack, argument)
            elif self.newer and name == "FRAME":
                if int(argument or 0) > self.limit:
                    raise Refused(f"a frame of its pickle should have {argument} bytes; the file has {self.limit}")
            elif name not in _MARKERS:
                raise Refused(f"its pickle has the operation {name}, which torch.save's protocol 2 does not use")

    def _unless_refused(self, reason: str) -> None:
        """Raise, unless names are wanted: then continue, and the reason will be all of them."""
        if self.stubs or not self.names:
            raise Refused(reason)

    def _spend(self, work: int) -> None:
        self.work += work
        if self.work > MOST_WORK + self.limit:
            raise Refused("a few bytes of its pickle cause enormous work: it is made to exhaust its reader")

    def _put(self, stack: list[Any], pieces: list[_Piece]) -> None:
        """Add to a list or a dict. Keys are hashed, and a list's elements may be, by what the list is passed to."""
        size = sum(piece.size for piece in pieces if piece.kind == "tuple") + len(pieces)
        self._spend(size)
        stack[-1].size += size

    def _named(self, argument: Any) -> _Piece:
        name = ".".join(argument.split(" ")).replace("__builtin__.", "builtins.")
        if name not in _CALLS and not is_name_of_data(name) and name not in self.names:
            self.names.append(name)
            if self.stubs and len(self.names) > MOST_NAMES:
                raise Refused(f"its pickle names more than {MOST_NAMES} classes and functions")
        return _Piece(name, "name")

    def _is_stub(self, piece: _Piece) -> bool:
        return self.stubs and piece.kind == "name" and piece.value in self.names

    def _call(self, function: _Piece, arguments: _Piece) -> _Piece:
        name = function.value
        if self._is_stub(function) and arguments.kind == "tuple":
            self._spend(arguments.size)
            return _Piece(_STUB, size=arguments.size)
        if self.stubs and name == "torch.nn.parameter.Parameter" and arguments.kind == "tuple":
            return _Piece("a parameter")  # torch before 0.4 made them like this
        if function.kind != "name" or name not in _CALLS or arguments.kind != "tuple":
            self._unless_refused(f"it calls {name if function.kind == 'name' else 'something other than a function'}")
            return _Piece()
        pieces: list[_Piece] = arguments.value
        if name in _REBUILDS:
            return _Piece(name)
        if name == "torch._tensor._rebuild_from_type_v2" and self._is_stub(pieces[0]):
            return _Piece(_STUB, size=arguments.size)
        if name == "torch._tensor._rebuild_from_type_v2" and pieces[0].value not in _REBUILDS:
            self._unless_refused(f"it calls {pieces[0].value!r:.60} to make a tensor")
        if name == "_codecs.encode" and [piece.value for piece in pieces[1:]] != ["latin1"]:
            self._unless_refused("it encodes text differently from how pickle encodes bytes")
        size = arguments.size + (pieces[0].value if name == "builtins.bytearray" and _is_size(pieces[0].value) else 0)
        self._spend(size)
        return _Piece(name, size=size)

    def _build(self, state: _Piece, target: _Piece) -> None:
        if target.kind != "object" or target.value not in ("collections.OrderedDict", _STUB):
            self._unless_refused("it sets the state of something other than an OrderedDict")
        self._spend(state.size)

    def _storage(self, identity: _Piece) -> _Piece:
        facts = [piece.value for piece in identity.value] if identity.kind == "tuple" else []
        kinds = [piece.kind for piece in identity.value] if identity.kind == "tuple" else []
        if self.stubs and facts[:1] == ["module"] and kinds[1:2] == ["name"]:
            return identity.value[1]  # a class in the format before zip, with its source
        if kinds[:5] != ["plain", "name", "plain", "plain", "plain"] or facts[0] != "storage" or not _is_size(facts[4]):
            self._unless_refused("it accesses data differently from torch.save")
            return _Piece()
        if facts[4] > self.limit:
            self._unless_refused(
                f"its storage {facts[2]!r:.40} should have {facts[4]} elements; the file has {self.limit} bytes"
            )
        if self.on_storage:
            self.on_storage(str(facts[2]), facts[1], facts[4])
        return _Piece("storage")


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 0


def _to_mark(stack: list[Any]) -> list[_Piece]:
    pieces = []
    while (piece := stack.pop()) is not None:
        pieces.append(piece)
    return pieces[::-1]


def _tuple(pieces: list[_Piece]) -> _Piece:
    depth = 1 + max((piece.depth for piece in pieces), default=0)
    size = 1 + sum(piece.size for piece in pieces)
    if depth > DEEPEST_TUPLE:
        raise Refused(f"its pickle nests tuples more than {DEEPEST_TUPLE} deep")
    if size > MOST_WORK:
        raise Refused("a tuple of its pickle contains itself over and over: it is made to exhaust its reader")
    return _Piece(pieces, "tuple", size, depth)


def _make_object(walk: Walk, stack: list[Any], _: Any) -> None:
    arguments, kind = stack.pop(), stack.pop()
    if walk._is_stub(kind) and arguments.kind == "tuple":
        stack.append(walk._call(kind, arguments))
        return
    stack.append(_Piece())
    walk._unless_refused("it makes an object of a class")


def _call(walk: Walk, stack: list[Any], _: Any) -> None:
    arguments, function = stack.pop(), stack.pop()
    stack.append(walk._call(function, arguments))


def _tuple_of(count: int) -> _Step:
    return lambda walk, stack, _: stack.append(_tuple([stack.pop() for _ in range(count)][::-1]))


_STEPS: dict[str, _Step] = {
    "MARK": lambda walk, stack, _: stack.append(None),
    "EMPTY_TUPLE": lambda walk, stack, _: stack.append(_tuple([])),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "TUPLE": lambda walk, stack, _: stack.append(_tuple(_to_mark(stack))),
    "APPEND": lambda walk, stack, _: walk._put(stack, [stack.pop()]),
    "APPENDS": lambda walk, stack, _: walk._put(stack, _to_mark(stack)),
    "SETITEM": lambda walk, stack, _: walk._put(stack, [stack.pop(), stack.pop()]),
    "SETITEMS": lambda walk, stack, _: walk._put(stack, _to_mark(stack)),
    "GLOBAL": lambda walk, stack, argument: stack.append(walk._named(argument)),
    "REDUCE": _call,
    "BUILD": lambda walk, stack, _: walk._build(stack.pop(), stack[-1]),
    "BINPERSID": lambda walk, stack, _: stack.append(walk._storage(stack.pop())),
    "NEWOBJ": _make_object,
} | {name: lambda walk, stack, _: stack.append(_Piece()) for name in ("EMPTY_DICT", "EMPTY_LIST", "EMPTY_SET")}
