"""A tensor's fingerprint: the same for the same dtype, shape and bytes, and for nothing else."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from port.weights.contiguous import pieces

DIGITS = 16
"""Of the hash, in hexadecimal: 64 bits. By chance two tensors meet once in 10¹⁹."""
HASH = "xxh3_64"
"""What is taken of a tensor. It tells a tensor that was changed from one that was not, at ten times SHA-256's speed; it
is no signature: who means to can make another tensor of the same fingerprint."""
FIRST_HASH = "sha256"
"""What files have that do not say which hash they have."""


def fingerprint(array: np.ndarray, hash: str = HASH) -> str:
    """The beginning of an array's hash. Shape and dtype belong to it: a reshaped tensor is another one.

    Args:
        array: of any dtype and strides.
        hash: `HASH`, or `FIRST_HASH` to compare with a file that has it.

    Raises:
        ValueError: another hash.
    """
    hashed = _begun(hash)
    hashed.update(f"{array.dtype.name}{array.shape}".encode())
    for piece in pieces(array):
        hashed.update(piece)
    return hashed.hexdigest()[:DIGITS]


def known_hash(name: str) -> str:
    """The name of a hash that `fingerprint` takes.

    Raises:
        ValueError: another one.
    """
    if name not in (HASH, FIRST_HASH):
        raise ValueError(f"its fingerprints are of {name!r}, and known are {HASH} and {FIRST_HASH}")
    return name


def _begun(hash: str) -> Any:
    import xxhash

    return xxhash.xxh3_64() if known_hash(hash) == HASH else hashlib.sha256()
