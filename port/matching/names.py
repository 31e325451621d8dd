"""What names reveal: the words of a path, and which of several names mean the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations

_SYNONYMS = {
    **dict.fromkeys(("q", "query", "queries", "wq"), "query"),
    **dict.fromkeys(("k", "key", "keys", "wk"), "key"),
    **dict.fromkeys(("v", "value", "values", "wv"), "value"),
    **dict.fromkeys(("o", "out", "output", "wo"), "out"),
    **dict.fromkeys(("wte", "tok", "token", "tokens", "word", "words", "vocab"), "token"),
    **dict.fromkeys(("wpe", "pos", "position", "positions", "positional", "posemb"), "position"),
    **dict.fromkeys(("segment", "type", "types"), "segment"),
    **dict.fromkeys(("forward", "fwd"), "forward"),
    **dict.fromkeys(("backward", "bwd", "reverse", "rev"), "backward"),
    **dict.fromkeys(("mean", "mu"), "mean"),
    **dict.fromkeys(("logvar", "log_var", "logsigma", "logstd"), "logvar"),
    **dict.fromkeys(("enc", "encoder"), "encoder"),
    **dict.fromkeys(("dec", "decoder"), "decoder"),
    **dict.fromkeys(("attn", "attention", "att"), "attention"),
    **dict.fromkeys(("mlp", "ffn", "feedforward", "ff"), "mlp"),
    **dict.fromkeys(("cls", "class", "classifier", "head", "logits"), "head"),
    **dict.fromkeys(("downsample", "shortcut", "skip", "residual", "res"), "shortcut"),
}
_KINDS = {
    *("dense", "linear", "fc", "lin", "conv", "convolution", "norm", "layernorm", "groupnorm", "batchnorm", "bn", "ln"),
    *("gn", "embed", "embedding", "embeddings", "emb", "proj", "projection", "general", "weight", "kernel", "layer"),
    *(
        "layers",
        "block",
        "blocks",
        "module",
        "modules",
        "model",
        "net",
        "the",
        "self",
        "param",
        "transpose",
        "mlpblock",
    ),
    *("scale", "bias", "cell", "rnn", "lstm", "gru", "optimized", "optimizedlstm"),
}
"""Words for a layer's kind, which do not identify a layer."""

_PROJECTIONS = {"query": ("attention", 0), "key": ("attention", 1), "value": ("attention", 2)}
_PROJECTIONS |= {"gate": ("gated", 0), "up": ("gated", 1)}


def words(path: str) -> list[str]:
    """Split a path into words, in their usual forms: ``encoder.layers_0.q_proj`` → encoder, "", 0, query, "".

    Words for a layer's kind become "".
    """
    found = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", path)]
    return ["" if word in _KINDS else _SYNONYMS.get(word, word) for word in found]


def projection(path: str) -> tuple[str, int] | None:
    """Which of the layers that are often fused a name means: query, key, value; gate, up; None for others."""
    last = [word for word in words(path.rpartition(".")[2]) if word and not word.isdigit()]
    return _PROJECTIONS.get(last[-1]) if last else None


def told_apart(torch: Sequence[str], flax: Sequence[str]) -> tuple[int, ...] | None:
    """Match Flax's names to torch's by their words; None if these do not decide.

    Args:
        torch: as many names as in ``flax``.
        flax: the names to match: the result is each one's position among torch's.
    """
    if len(torch) != len(flax) or not torch:
        return None
    ours, theirs = _telling(flax), _telling(torch)
    likeness = [[_likeness(one, other) for other in theirs] for one in ours]
    if len(flax) <= 6:
        totals = sorted(
            ((sum(row[place] for row, place in zip(likeness, places, strict=True)), places)
             for places in permutations(range(len(torch)))),
            reverse=True,
        )  # fmt: skip
        if len(totals) > 1 and totals[0][0] - totals[1][0] < 1e-9:
            return None
        best = totals[0][1]
    else:
        best = tuple(max(range(len(torch)), key=row.__getitem__) for row in likeness)
    if len(set(best)) != len(best):
        return None
    for row, place in zip(likeness, best, strict=True):
        rivals = [value for other, value in enumerate(row) if other != place]
        if row[place] <= 0 or any(value >= row[place] for value in rivals):
            return None
    return best


def _telling(paths: Sequence[str]) -> list[set[str]]:
    """Of each name, the words that the others do not all have; a number together with the word before it."""
    word_sets = []
    for path in paths:
        found = set()
        before = ""
        for word in words(path):
            if word.isdigit():
                found |= {f"{before}{word}"} if before else set()
            else:
                found |= {word} if word else set()
                before = word
        word_sets.append(found)
    shared = set.intersection(*word_sets) if len(word_sets) > 1 else set()
    return [found - shared for found in word_sets]


def _likeness(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0
