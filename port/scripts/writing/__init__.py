"""One update of an observed script, written in JAX, in the script's own process, where its model is.

`capture` keeps what the first watched steps were given, `followed` what of it leads to a loss, and `states` what goes
from step to step; `unwritten` says what keeps a script from being written;
`loss_source` writes the path from a batch to its loss as a torch module, which `port.translate` translates;
`step_source` writes the update around it; `proof` makes it beside the original's on the script's own batches, in
float64, and `step_proof` says what came of it; `update` puts all of it together. `clipping`, `optimizing`, `averaging`
and `lower_precision` are about what else an update does, `replaying` about the copies on which it is made again,
`rank_batches` about several processes, and `standalone` about a folder that needs no port.
`trainer` writes the loop around the update, where it is plain: `loop` and `epochs` read it in the script,
`taken_statements` finds what makes the data, `loop_lines` what is made of a batch, `original_source` writes that and
the options, `trainer_source` the rest, and `trainer_files` puts both where they are compared. `own_trainer` does it
for a loop without a DataLoader, with generators in the script's own lines: `own_batches`, `own_rates`.
"""
