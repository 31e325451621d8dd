"""What is known of an expression of the source: its value, where that comes from, and so of what it holds."""

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
    """An expression is the shape of a tensor.

    Attributes:
        tensor: as the source calls it.
        location: where its shape is read.
    """

    tensor: str
    location: SourceLocation

    def length(self, axis: int) -> LengthOf:
        return LengthOf(self.tensor, axis, self.location)


@dataclass(frozen=True)
class Resolved:
    """What is known of an expression. In a capture two are not compared: a tensor's ``==`` is an operator.

    Attributes:
        value: `MISSING` if it is not known.
        origin: of a number; of an object, the attribute that holds it.
        items: of a tuple or a list, what is known of each item.
        last: of one of which it is not known how many items it has, what is known of the last ones.
        named: of a dict with strings for keys, the same.
        shape: of a tensor, if it is one.
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

    def seen_as(self, value: Any) -> Resolved:
        """The same, of what was seen to have this value: nothing but the value where the two are not the same."""
        if value is MISSING or self.value is value:
            return self
        if self.last and isinstance(value, tuple | list) and len(value) >= len(self.last):
            before = tuple(map(Resolved, value[: -len(self.last)]))
            return Resolved(value, items=(*before, *self.last)).seen_as(list(value))
        if self.value is MISSING and self.items is None:
            return replace(self, value=value)
        if is_same(self.value, value) and type(self.value) is type(value):
            return self
        items = self.each_item()
        if items is None or not isinstance(value, tuple | list) or len(items) != len(value):
            return Resolved(value)
        return Resolved(value, items=tuple(item.seen_as(now) for item, now in zip(items, value, strict=True)))

    def each_item(self) -> tuple[Resolved, ...] | None:
        """What is known of the items; None where it is not known how many there are."""
        if self.items is not None:
            return self.items
        if not isinstance(self.value, tuple | list):
            return None
        return tuple(self._item(place, value) for place, value in enumerate(self.value))

    def each_named(self) -> Mapping[str, Resolved] | None:
        """What is known of what a dict with names for keys holds; None where it is not known what it holds."""
        if self.named is not None:
            return self.named
        if type(self.value) is not dict or not all(isinstance(key, str) for key in self.value):
            return None
        return {key: self._item(key, value) for key, value in self.value.items()}

    def with_item(self, key: Any, given: Resolved) -> Resolved:
        """The same, with another item in a place."""
        items = self.each_item()
        if type(key) is not int or items is None or not -len(items) <= key < len(items):
            return Resolved()
        place = key % len(items)
        return Resolved(items=(*items[:place], given, *items[place + 1 :]))

    def item(self, key: Any) -> Resolved:
        """What is known of the item with an index, or with a key."""
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
