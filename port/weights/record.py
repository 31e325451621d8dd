"""The record of a conversion in the converted file's metadata, so that the way back needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping as Dict
from dataclasses import dataclass, field, replace

from port.errors import BrokenWeights, PortError
from port.mapping import TORCH_ONLY, Entry, Mapping
from port.mapping.file import mapping_from, tables_of
from port.weights.fingerprints import DIGITS, FIRST_HASH, HASH, known_hash

KEY = "port.conversion"
"""Its key in the file's metadata."""
UNKNOWN = "0" * DIGITS
"""A fingerprint that is not known yet, as long as a real one: the metadata keeps its length when they are filled in."""


@dataclass(frozen=True)
class ConversionRecord:
    """What a file of Flax variables stores about the torch weights that it was made from.

    Attributes:
        mapping: from torch's keys to Flax's paths, for the whole model.
        fingerprints: of each converted torch tensor, after its cast; by Flax's path for a variable that is not in
            torch's state dict. Tensors without one were not in the torch file.
        dtypes: the original dtypes of torch tensors that were cast.
        left_out: what was in the torch file but was not converted, with the reason.
        renamed: a name of the torch file with a wrapper's prefix, and the model's own name for it.
        hash: the fingerprints' hash.
        adapter: the config of the LoRA adapter, if the torch file was one; otherwise empty.
    """

    mapping: Mapping
    fingerprints: dict[str, str]
    dtypes: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    renamed: tuple[str, str] | None = None
    hash: str = HASH
    adapter: str = ""

    @property
    def carried(self) -> tuple[Entry, ...]:
        """The mapping's entries whose tensors the file has."""
        return tuple(
            entry for entry in self.mapping.entries if any(name in self.fingerprints for name in entry.sources)
        )

    @property
    def lacking(self) -> list[str]:
        """Torch's keys that the model needs but a file with a part of it lacked."""
        carried = set(self.carried)
        return [
            name
            for entry in self.mapping.entries
            if entry not in carried and not entry.optional and entry.collection != TORCH_ONLY
            for name in entry.sources
        ]

    @property
    def hidden(self) -> set[str]:
        """Flax's paths of the variables that are not in torch's state dict."""
        return set(self.fingerprints) - {name for entry in self.mapping.entries for name in entry.sources}

    def with_fingerprints(self, found: Dict[str, str]) -> ConversionRecord:
        """The record with the fingerprints that are known now."""
        return replace(self, fingerprints=self.fingerprints | dict(found))

    def metadata(self) -> dict[str, str]:
        """The record as a file's metadata."""
        record = {
            "mapping": tables_of(self.mapping),
            "fingerprints": self.fingerprints,
            "hash": self.hash,
            "dtypes": self.dtypes,
            "left_out": self.left_out,
            "renamed": self.renamed,
            **({"adapter": self.adapter} if self.adapter else {}),
        }
        return {KEY: json.dumps(record, ensure_ascii=False, separators=(",", ":"))}


def record_of(origin: str, metadata: Dict[str, str]) -> ConversionRecord | None:
    """Read the record from a file's metadata; None if it has none.

    Args:
        origin: the file, for error messages.
        metadata: the file's metadata.

    Raises:
        BrokenWeights: the record is invalid.
    """
    if KEY not in metadata:
        return None
    try:
        record = json.loads(metadata[KEY])
        return ConversionRecord(
            mapping_from(record["mapping"], "its mapping"),
            _texts(record["fingerprints"]),
            _texts(record["dtypes"]),
            _texts(record["left_out"]),
            None if record["renamed"] is None else (str(record["renamed"][0]), str(record["renamed"][1])),
            known_hash(record.get("hash", FIRST_HASH)),
            str(record.get("adapter", "")),
        )
    except (LookupError, TypeError, ValueError, RecursionError, PortError) as error:
        raise BrokenWeights(
            f"{origin}: the record of its conversion ({KEY} in its metadata) cannot be read: {error}. Convert the "
            "original again"
        ) from error


def _texts(texts: object) -> dict[str, str]:
    if not isinstance(texts, dict) or not all(isinstance(value, str) for value in texts.values()):
        raise ValueError("text by name is expected")
    return dict(texts)
