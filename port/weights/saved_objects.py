"""Unpickles what ``torch.save`` wrote as plain data, without torch: nothing that a file names is imported or run.

Classes and functions that no state dict needs become stubs: empty objects that keep the state they are assigned. A
pickle is read here only after `port.weights.pickles.Walk` has accepted it.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from port.weights.pickles import Refused, is_name_of_data

DTYPES = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Untyped": "uint8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}
"""torch's classes of storages, without ``Storage`` at the end → the dtype of their elements."""


@dataclass(frozen=True)
class PickledName:
    """A dtype, a device or a class that a pickle names."""

    name: str


@dataclass(frozen=True)
class SavedTensor:
    """A tensor as the file describes it: elements of a storage, with strides.

    Attributes:
        storage: the storage's key in the file.
        dtype: torch's name for it.
        offset: the first element's position in the storage.
        shape: in elements.
        strides: in elements.
        flags: "conj" and "neg", if the elements must be conjugated or negated.
    """

    storage: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Storage:
    key: str
    dtype: str
    begin: int


class Stub:
    """An object of an unknown class."""

    kind = ""
    state: Any = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Ignore the arguments."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def _ignore(self, *arguments: Any) -> None:
        """Ignore what fills a list or dict subclass."""

    append = extend = __setitem__ = _ignore


class _Dict(dict[Any, Any]):
    """A dict in the order of the file; attributes set on it are ignored."""

    def __setstate__(self, state: Any) -> None:
        pass


class _Counter(Counter[Any]):
    """A Counter, as of MultiStepLR's milestones."""

    def __init__(self, counts: Any = ()) -> None:
        # Python's own adds to what is there, whatever that is.
        dict.__init__(self, counts)

    def __setstate__(self, state: Any) -> None:
        pass


def unpickled(file: IO[bytes], make: Callable[[SavedTensor], Any]) -> Any:
    """Read one pickle.

    Args:
        file: positioned at the pickle.
        make: converts a tensor.

    Raises:
        Refused: a tensor or a storage with an invalid description; what no pickle can do.
    """
    try:
        return _Unpickler(file, make).load()
    except pickle.UnpicklingError as error:
        raise Refused(f"it is not a complete pickle: {error}") from error


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], make: Callable[[SavedTensor], Any]) -> None:
        super().__init__(file)
        self.known: dict[str, Any] = _functions(make)

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}".replace("__builtin__.", "builtins.")
        if full not in self.known:
            self.known[full] = PickledName(full) if is_name_of_data(full) else type("Stub", (Stub,), {"kind": full})
        return self.known[full]

    def persistent_load(self, identity: Any) -> Any:
        if identity[0] == "module":
            return identity[1]  # a class, followed by its source
        _, kind, key, _, _, *view = identity
        name = kind.name.rpartition(".")[2].removesuffix("Storage")
        # The format before zip may store a storage as a view of another: its key, begin and length.
        begin = view[0][1] if view and view[0] is not None else 0
        return _Storage(str(key), DTYPES.get(name, f"of {kind.name}"), begin)


def _functions(make: Callable[[SavedTensor], Any]) -> dict[str, Any]:
    """What a pickle may call, by name."""

    def tensor(storage: Any, offset: Any, shape: Any, strides: Any, dtype: str, metadata: Any = None) -> Any:
        numbers = (offset, *shape, *strides) if isinstance(shape, tuple) and isinstance(strides, tuple) else (None,)
        if not isinstance(storage, _Storage) or not all(type(number) is int and number >= 0 for number in numbers):
            raise Refused(f"a tensor of shape {shape!r:.60}, strides {strides!r:.60} and offset {offset!r:.30} is none")
        if len(shape) != len(strides) or len(shape) > 64:
            raise Refused(f"a tensor has the shape {shape!r:.60} and the strides {strides!r:.60}")
        flags = tuple(key for key in ("conj", "neg") if isinstance(metadata, dict) and metadata.get(key))
        return make(SavedTensor(storage.key, dtype, storage.begin + offset, shape, strides, flags))

    def typed(storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> Any:
        metadata = rest[2] if len(rest) > 2 else None
        return tensor(storage, offset, shape, strides, getattr(storage, "dtype", ""), metadata)

    def untyped(storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> Any:
        if len(rest) < 3 or not isinstance(rest[2], PickledName):
            raise Refused("a tensor of a newer dtype does not say which")
        dtype = rest[2].name.removeprefix("torch.")
        return tensor(storage, offset, shape, strides, dtype, rest[3] if len(rest) > 3 else None)

    return {
        "torch._utils._rebuild_tensor": typed,
        "torch._utils._rebuild_tensor_v2": typed,
        "torch._utils._rebuild_tensor_v3": untyped,
        "torch._utils._rebuild_parameter": lambda data, *_: data,
        "torch._utils._rebuild_parameter_with_state": lambda data, *_: data,
        "torch.nn.parameter.Parameter": lambda data=None, *_: data,
        "torch._tensor._rebuild_from_type_v2": lambda function, kind, arguments, state: function(*arguments),
        "collections.OrderedDict": _Dict,
        "collections.Counter": _Counter,
        "builtins.set": set,
        "builtins.complex": complex,
        "builtins.bytearray": bytearray,
        "_codecs.encode": lambda text, encoding: text.encode("latin1"),
        "torch.Size": lambda sizes=(): tuple(sizes),
        "torch.device": lambda *parts: PickledName(f"torch.device{parts}"),
    }
