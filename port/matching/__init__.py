"""Finds the mapping between two models that were written separately.

It is proposed from kinds, shapes, names and order, decided by activations, and proved by `port.check`.
"""

from port.matching.matching import match
from port.matching.result import Candidate, Match, Row

__all__ = ["Candidate", "Match", "Row", "match"]
