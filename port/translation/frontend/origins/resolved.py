"""The result of resolving an expression of the source: its value, its origin, and those of its items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from port.translation.frontend.origins.frame_objects import MISSING
from port.translation.ir.number import is_same
from port.translation.ir.origin import AttributeOf, DefaultOf, LengthOf, Origin
from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class ShapeOf:
    """Marks an expression as the shape of a tensor.

    Attributes:
        tensor: the tensor's expression in the source.
        location: where its shape is read.
    """

    tensor: str
    location: SourceLocation

    def length(self, axis: int) -> LengthOf:
        """Return the origin of the length of one axis."""
        return LengthOf(self.tensor, axis, self.location)


@dataclass(frozen=True)
class Resolved:
    """What is known of an expression. Do not compare two during a capture: a tensor's ``==`` is an operator.

    Attributes:
        value: the value; `MISSING` if it is not known.
        origin: the origin of a number; for an object, the attribute that holds it.
        items: the resolved items of a tuple or a list.
        last: the resolved last items, where the number of items is not known.
        named: the resolved items of a dict with string keys.
        shape: set if the expression is the shape of a tensor.
    """

    value: Any = MISSING
    origin: Origin | None = None
    items: tuple[Resolved, ...] | None = None
    last: tuple[Resolved, ...] = ()
    named: Mapping[str, Resolved] | None = None
    shape: ShapeOf | None = None

    @property
    def has_origin(self) -> bool:
        """Whether more is known than the value."""
        items = (*(self.items or ()), *self.last, *(self.named or {}).values())
        return self.origin is not None or self.shape is not None or any(item.has_origin for item in items)

    def observed_as(self, value: Any) -> Resolved:
        """Combine with a value that was observed; only the value is kept where the two disagree."""
        if value is MISSING or self.value is value:
            return self
        if self.last and isinstance(value, tuple | list) and len(value) >= len(self.last):
            before = tuple(map(Resolved, value[: -len(self.last)]))
            return Resolved(value, items=(*before, *self.last)).observed_as(list(value))
        if self.value is MISSING and self.items is None:
            return replace(self, value=value)
        if is_same(self.value, value) and type(self.value) is type(value):
            return self
        items = self.each_item()
        if items is None or not isinstance(value, tuple | list) or len(items) != len(value):
            return Resolved(value)
        return Resolved(value, items=tuple(item.observed_as(now) for item, now in zip(items, value, strict=True)))

    def each_item(self) -> tuple[Resolved, ...] | None:
        """Return the resolved items of a tuple or list; None where their number is not known."""
        if self.items is not None:
            return self.items
        if not isinstance(self.value, tuple | list):
            return None
        return tuple(self._item(place, value) for place, value in enumerate(self.value))

    def each_named(self) -> Mapping[str, Resolved] | None:
        """Return the resolved items of a dict with string keys; None where they are not known."""
        if self.named is not None:
            return self.named
        if type(self.value) is not dict or not all(isinstance(key, str) for key in self.value):
            return None
        return {key: self._item(key, value) for key, value in self.value.items()}

    def with_item(self, key: Any, item: Resolved) -> Resolved:
        """Return a copy with one item replaced."""
        items = self.each_item()
        if type(key) is not int or items is None or not -len(items) <= key < len(items):
            return Resolved()
        place = key % len(items)
        return Resolved(items=(*items[:place], item, *items[place + 1 :]))

    def item(self, key: Any) -> Resolved:
        """Return the resolved item with an index or a key."""
        items = self.each_item()
        if type(key) is int and items is not None:
            found = items[key] if -len(items) <= key < len(items) else Resolved()
            return found if self.shape is None else Resolved(found.value, self.shape.length(key))
        if type(key) is int and self.shape is not None:
            return Resolved(origin=self.shape.length(key))
        named = self.each_named()
        if isinstance(key, str) and named is not None:
            return named.get(key, Resolved())
        held = self.value
        if type(key) is int and type(held) is dict and key in held:
            return self._item(key, held[key])
        if type(key) is int and isinstance(held, torch.nn.ModuleList | torch.nn.Sequential):
            modules = [*held._modules.values()]
            return self._item(key, modules[key]) if -len(modules) <= key < len(modules) else Resolved()
        return Resolved()

    def _item(self, key: Any, value: Any) -> Resolved:
        if self.shape is not None:
            return Resolved(value, self.shape.length(key))
        if isinstance(self.origin, AttributeOf):
            return Resolved(value, AttributeOf(self.origin.path, f"{self.origin.attribute}[{key!r}]"))
        return Resolved(value, self.origin if isinstance(self.origin, DefaultOf) else None)
