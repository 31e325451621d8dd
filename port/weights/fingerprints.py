"""Fingerprints of tensors: equal for equal dtype, shape and bytes only."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from port.weights.contiguous import pieces

DIGITS = 16
"""Hexadecimal digits of the hash: 64 bits. Two tensors collide by chance once in 10¹⁹."""
HASH = "xxh3_64"
"""The hash. It tells a changed tensor from an unchanged one, at ten times SHA-256's speed; it is not a signature:
tensors with equal fingerprints can be made on purpose."""
FIRST_HASH = "sha256"
"""The hash of files that do not name one."""


def fingerprint(array: np.ndarray, hash: str = HASH) -> str:
    """Return the first digits of an array's hash, including shape and dtype: a reshaped tensor has another one.

    Args:
        array: of any dtype and strides.
        hash: `HASH`, or `FIRST_HASH` to compare with a file that uses it.

    Raises:
        ValueError: the hash is unknown.
    """
    hashed = _begun(hash)
    hashed.update(f"{array.dtype.name}{array.shape}".encode())
    for piece in pieces(array):
        hashed.update(piece)
    return hashed.hexdigest()[:DIGITS]


def known_hash(name: str) -> str:
    """Return the name of a hash that `fingerprint` supports.

    Raises:
        ValueError: the hash is unknown.
    """
    if name not in (HASH, FIRST_HASH):
        raise ValueError(f"its fingerprints use {name!r}; supported are {HASH} and {FIRST_HASH}")
    return name


def _begun(hash: str) -> Any:
    import xxhash

    return xxhash.xxh3_64() if known_hash(hash) == HASH else hashlib.sha256()
