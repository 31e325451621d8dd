"""The reason why a constructor cannot be translated from its source."""


class CannotKeep(Exception):
    """A constructor cannot be translated from its source; its classes are written from what it creates instead."""
