"""Why a constructor cannot be written as its source has it."""


class CannotKeep(Exception):
    """A constructor that is not written as its source has it; its classes are written from what it makes."""
