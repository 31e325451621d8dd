"""Several optimizers that step in turn, as in a GAN: one pure update of all of them, in the script's order.

`order` finds which losses' gradients each optimizer takes; `paths` what each turn computes anew, computes again, or has
from an earlier one, and `constants` which tensors are one number all over; `torch_source` writes a turn as a torch
module, which `port.translate` translates; `step_source` the update around them, `proof` makes it beside the original's;
`update` puts it together, and `trainer` writes the loop around it, with `loop_lines` for what the script makes there.
"""
