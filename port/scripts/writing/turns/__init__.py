"""Several optimizers that step in turn, as in a GAN: one pure update of all of them, in the script's order.

`order` finds which losses' gradients each optimizer uses; `paths` what each turn computes first, recomputes, or takes
from an earlier one, and `constants` which tensors hold a single repeated number; `torch_source` writes a turn as a
torch module, which `port.translate` translates; `step_source` writes the update around them, `proof` compares it with
the original's; `update` assembles it, and `trainer` writes the loop around it, with `loop_lines` for what the script
computes there.
"""
