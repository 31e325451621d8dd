"""A user's own training script, in PyTorch, made comparable. With its JAX twin, and a verdict:

    port train --torch-script side_by_side/pytorch/script.py --jax-script side_by_side/jax/script.py -- --steps 200

The lines that make it comparable say `port`: the rest is any script.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import port

# %% A model


class Net(nn.Module):
    """64 → 128 → 10, with dropout between."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(64, 128)
        self.dropout = nn.Dropout(0.2)
        self.out = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.dropout(F.gelu(self.hidden(x))))


# %% The run


def main(steps: int, lr: float, precision: str) -> None:
    """Train for some steps and record every one of them."""
    dtype = getattr(torch, precision)
    digits: Any = port.data.load_examples("digits", train=True)
    plan = port.IndexPlan(len(digits), batch_size=32, seed=1)  # the order, shared
    sampler = port.PlanSampler(plan)
    loader: DataLoader[Any] = DataLoader(digits, batch_sampler=sampler)

    model = Net()
    port.share_initial_weights(model)  # the JAX script loads these
    model.to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=1e-2)

    step = 0
    with port.Recorder(total_steps=steps) as record:  # what the verdict compares
        for epoch in range(-(-steps // plan.batches_per_epoch)):
            sampler.set_epoch(epoch)
            for images, labels in loader:
                if step == steps:
                    break
                x = images.flatten(1).to(dtype) / 255
                key = port.dropout_key(0, step, x64=dtype == torch.float64)
                with port.shared_dropout(model, key):  # stock nn.Dropout, masks that JAX can draw too
                    loss = F.cross_entropy(model(x), labels.long())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                record(step, epoch=epoch, loss=loss)
                step += 1
    port.save_final_weights(model)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--precision", choices=["float64", "float32"], default="float64")
    try:
        main(**vars(parser.parse_args()))
    except port.errors.NoLauncher as error:
        parser.exit(2, f"{error}\n")
