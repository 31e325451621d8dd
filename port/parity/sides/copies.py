"""Copy torch modules with everything they compute with, so that the user's modules stay unchanged."""

from __future__ import annotations

import copyreg
import functools
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from port.errors import UsageError
from port.parity.sides.reachable import reached, registered

_AS_THEY_ARE = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), types.ModuleType)
_CACHED = type(functools.lru_cache(len))
PART_OF_ANOTHER = "_is_part_of_another"
"""Attribute of a tensor's copy: the original shares the memory of a parameter or a buffer."""
_CLASS_STATEMENT = 1 << 9
"""Type flag: the type was made by a class statement, so its instances are determined by their attributes."""


Change = Callable[[torch.Tensor], torch.Tensor]


def copied(module: Any, change: Change | None = None) -> Any:
    """Return a copy of a torch module that shares no tensor or module with the original.

    ``copy.deepcopy`` treats functions as constants: in the copy, a lambda that calls a layer still calls the original
    layer. Here functions are copied with their closures and defaults, as are bound methods, partial functions and weak
    references. A module is copied by its attributes, whatever its ``__deepcopy__`` or ``__getstate__`` does. Objects
    that cannot be copied, such as Python modules, locks, open files and generators, are shared.

    Tensors with a history that an earlier run left in the module, such as the last attention weights or a weight that
    ``torch.nn.utils.weight_norm`` computes, are detached in the copy, since torch copies only leaf tensors. Gradients
    are not copied.

    Args:
        module: the module; it is not changed.
        change: a function applied to every tensor, such as a cast to float64; the copy holds its result.

    Raises:
        UsageError: an object that holds a tensor or a module cannot be copied; names the object and its path.
    """
    return copied_with_memo(module, change)[0]


def copied_with_memo(module: Any, change: Change | None = None) -> tuple[Any, dict[int, Any]]:
    """Like `copied`, and return the copy of each object by its ``id``."""
    copying = _Copying(change)
    made = copying.of(module)
    copying.check(module)
    copying.mark_parts_of_others(module)
    if copying.behind_weak_references:
        # They must live as long as the copy: in the original, something else holds them.
        vars(made)["_behind_weak_references"] = copying.behind_weak_references
    return made, copying.memo


class _Copying:
    """One copying operation, in which each object is copied once.

    Attributes:
        memo: ``id`` of an object → its copy, in the form ``__deepcopy__`` takes.
        shared: the objects that could not be copied, each with the error.
    """

    def __init__(self, change: Change | None = None) -> None:
        self.change = change
        self.memo: dict[int, Any] = {}
        self.shared: dict[int, tuple[Any, Exception]] = {}
        self.behind_weak_references: list[Any] = []
        self._alive: list[Any] = []  # an id is unique only while its object lives

    def of(self, thing: Any) -> Any:
        """Return the copy of an object."""
        if type(thing) in _AS_THEY_ARE or isinstance(thing, type | types.ModuleType):
            return thing
        if id(thing) not in self.memo:
            self._alive.append(thing)
            made = self._made(thing)
            # A cycle may have registered the copy already.
            self.memo.setdefault(id(thing), made)
        return self.memo[id(thing)]

    def check(self, root: Any) -> None:
        """Check that no shared object holds tensors or modules.

        Raises:
            UsageError: an object does.
        """
        for thing, error in self.shared.values():
            held = next(
                (found for _, found in reached(thing) if isinstance(found, torch.Tensor | torch.nn.Module)), None
            )
            if held is not None:
                path = next((path for path, found in reached(root) if found is thing), "")
                raise UsageError(
                    f"{type(root).__qualname__}{path} is an object of {type(thing).__qualname__} that holds a "
                    f"{type(held).__name__} and cannot be copied ({type(error).__name__}: {error}); what is translated "
                    "is run as a copy: make it an nn.Module, or hold the tensors elsewhere"
                )

    def mark_parts_of_others(self, root: Any) -> None:
        """Mark the copies of tensors that share the memory of a parameter or a buffer."""
        known = registered(root)
        tensors = [thing for thing in self._alive if isinstance(thing, torch.Tensor)]
        memories = {_memory(tensor) for tensor in tensors if id(tensor) in known} - {0}
        for tensor in tensors:
            if id(tensor) not in known and _memory(tensor) in memories:
                vars(self.memo[id(tensor)])[PART_OF_ANOTHER] = True

    def _made(self, thing: Any) -> Any:
        match thing:
            case torch.Tensor():
                return self._tensor(thing)
            case types.FunctionType():
                return self._function(thing)
            case types.MethodType():
                return types.MethodType(self.of(thing.__func__), self.of(thing.__self__))
            case types.BuiltinMethodType():
                owner = self.of(thing.__self__)
                return thing if owner is thing.__self__ else getattr(owner, thing.__name__)
            case weakref.ref():
                return self._weak(thing)
        if type(thing) in (list, dict, tuple, types.CellType):
            return self._container(thing)
        if type(thing) is _CACHED:
            inner = self.of(thing.__wrapped__)
            return thing if inner is thing.__wrapped__ else functools.lru_cache(**thing.cache_parameters())(inner)
        if isinstance(thing, torch.Generator):
            return torch.Generator(thing.device).set_state(thing.get_state())
        return self._object(thing)

    def _tensor(self, tensor: torch.Tensor) -> Any:
        if self.change is not None and type(tensor) in (torch.Tensor, torch.nn.Parameter) and not is_lazy(tensor):
            return self._changed(tensor, self.change)
        made = tensor.__deepcopy__(self.memo) if tensor.is_leaf else tensor.detach().clone()  # type: ignore[no-untyped-call]
        made.grad = None
        if self.change is not None and not is_lazy(tensor):
            made.data = self.change(made.data)
        return made

    def _changed(self, tensor: torch.Tensor, change: Change) -> torch.Tensor:
        """Return a changed copy of a tensor, without cloning it before the change."""
        with torch.no_grad():
            numbers = change(tensor).detach()
        if type(numbers) is type(tensor.data) and _memory(numbers) == _memory(tensor):
            numbers = numbers.clone()  # the change returned the tensor itself
        requires_grad = tensor.is_leaf and tensor.requires_grad
        if isinstance(tensor, torch.nn.Parameter):
            made: torch.Tensor = torch.nn.Parameter(numbers, requires_grad)
        else:
            made = numbers.requires_grad_(requires_grad)
        if tensor.is_leaf:
            vars(made).update(self.of(vars(tensor)))
        return made

    def _container(self, thing: Any) -> Any:
        if type(thing) is tuple:
            items = tuple(map(self.of, thing))
            return thing if all(mine is theirs for mine, theirs in zip(items, thing, strict=True)) else items
        made = self.memo[id(thing)] = type(thing)()
        if type(thing) is list:
            made.extend(map(self.of, thing))
        elif type(thing) is dict:
            made.update((self.of(key), self.of(value)) for key, value in thing.items())
        elif (contents := contents_of(thing)) is not _EMPTY:
            made.cell_contents = self.of(contents)
        return made

    def _function(self, function: types.FunctionType) -> Any:
        if _is_constant(function, set()):
            return function
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        made = types.FunctionType(function.__code__, function.__globals__, function.__name__, None, cells or None)
        self.memo[id(function)] = made
        for cell, before in zip(cells, function.__closure__ or (), strict=True):
            # Two functions may share one cell; what one of them writes into it, the other reads.
            if (contents := contents_of(before)) is not _EMPTY:
                cell.cell_contents = self.of(contents)
        made.__defaults__, made.__kwdefaults__ = self.of(function.__defaults__), self.of(function.__kwdefaults__)
        made.__dict__.update(self.of(vars(function)))
        made.__qualname__, made.__module__, made.__doc__ = function.__qualname__, function.__module__, function.__doc__
        made.__annotations__ = function.__annotations__
        return made

    def _weak(self, reference: Any) -> Any:
        target = reference()
        if target is None or type(reference) is not weakref.ref:
            return reference
        made = self.of(target)
        if isinstance(made, torch.nn.Module):
            self.behind_weak_references.append(made)
        return weakref.ref(made)

    def _object(self, thing: Any) -> Any:
        ways = [self._by_deepcopy, self._reduced, self._by_attributes]
        if isinstance(thing, torch.nn.Module) and not isinstance(thing, torch.jit.ScriptModule):
            ways = [self._by_attributes, self._reduced]
        for way in ways:
            known = len(self._alive)
            try:
                return way(thing)
            except Exception as error:  # the user's code may raise anything
                # Its frames hold the copy, which would live until the next garbage collection.
                why = error.with_traceback(None)
                for begun in (thing, *self._alive[known:]):
                    if not isinstance(begun, torch.Tensor):
                        self.memo.pop(id(begun), None)
        self.shared[id(thing)] = thing, why
        return thing

    def _by_deepcopy(self, thing: Any) -> Any:
        made = thing.__deepcopy__(self.memo)
        if made is thing and any(isinstance(held, torch.Tensor) for _, held in reached(thing)):
            raise TypeError(f"{type(thing).__qualname__}.__deepcopy__ returns the object itself")
        return made

    def _reduced(self, thing: Any) -> Any:
        """Copy by the reduce protocol of pickle and ``copy``."""
        reduce = copyreg.dispatch_table.get(type(thing))
        reduced: Any = thing.__reduce_ex__(4) if reduce is None else reduce(thing)
        if isinstance(reduced, str):
            return thing
        parts: list[Any] = [*reduced, None, None, None]
        function, args, state, items, pairs = parts[:5]
        made = self.memo[id(thing)] = function(*self.of(tuple(args)))
        if state is not None:
            state = self.of(state)
            if hasattr(made, "__setstate__"):
                made.__setstate__(state)
            else:
                _fill(made, state)
        for item in items or ():
            made.append(self.of(item))
        for key, value in pairs or ():
            made[self.of(key)] = self.of(value)
        return made

    def _by_attributes(self, thing: Any) -> Any:
        if not type(thing).__flags__ & _CLASS_STATEMENT:
            raise TypeError(f"cannot copy an object of {type(thing).__qualname__}")
        made = self.memo[id(thing)] = object.__new__(type(thing))
        _fill(made, self.of(object.__getstate__(thing)))  # type: ignore[attr-defined]
        return made


def _memory(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's memory; 0 if it has none."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError, ValueError):  # a sparse tensor, a wrapper subclass, or a lazy layer's
        return 0


def _fill(made: Any, state: Any) -> None:
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if attributes:
        vars(made).update(attributes)
    for name, value in (slots or {}).items():
        object.__setattr__(made, name, value)


def _is_constant(function: types.FunctionType, seen: set[int]) -> bool:
    """Whether a copy of a function would behave the same: it is defined at module level, or holds nothing mutable."""
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is function or id(function) in seen:
        return True
    seen.add(id(function))
    held = [contents_of(cell) for cell in function.__closure__ or ()]
    held += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *vars(function).values()]
    return all(
        isinstance(item, (*_AS_THEY_ARE, type))
        or item is _EMPTY
        or (isinstance(item, types.FunctionType) and _is_constant(item, seen))
        for item in held
    )


_EMPTY = object()


def contents_of(cell: Any) -> Any:
    """Return the contents of a closure's cell."""
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY
