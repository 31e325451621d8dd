"""What a config says of quantised weights; what cannot be read says nothing."""

from __future__ import annotations

import json

import pytest

from port.weights.quantization_config import quantization_config, said_blocks


@pytest.mark.parametrize(
    ("told", "blocks"),
    [
        ({"quantization_config": {"weight_block_size": [128, 128]}}, (128, 128)),
        ({"quantization_config": {"weight_block_size": None}}, None),
        ({"quantization_config": {"weight_block_size": [128, "x"]}}, None),
        ({"quantization_config": {"weight_block_size": []}}, None),
        ({"quantization_config": {"config_groups": {"a": {"weights": {"block_structure": [64, 32]}}}}}, (64, 32)),
        ({"compression_config": {"config_groups": {"a": {"weights": {"block_structure": [64, 32]}}}}}, (64, 32)),
        (
            {
                "quantization_config": {
                    "config_groups": {
                        "a": {"weights": {"block_structure": [64, 32]}},
                        "b": {"weights": {"block_structure": [64, 64]}},
                    }
                }
            },
            None,
        ),
        ({"quantization_config": {"config_groups": {"a": None}}}, None),
        ({"quantization_config": {"config_groups": [1]}}, None),
        ({"quantization_config": [1]}, None),
        ({}, None),
        ([], None),
    ],
)
def test_the_blocks(tmp_path, told, blocks):
    (tmp_path / "config.json").write_text(json.dumps(told))
    assert said_blocks(quantization_config(tmp_path)) == blocks


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_cannot_be_read(tmp_path, content):
    assert quantization_config(tmp_path) is None
    (tmp_path / "config.json").write_bytes(content)
    assert quantization_config(tmp_path) is None
