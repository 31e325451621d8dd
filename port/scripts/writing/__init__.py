"""Write one update of an observed script in JAX, in the script's process, where its model is.

`capture` keeps the inputs of the first watched steps, `followed` selects what leads to a loss, and `states` finds what
is carried from step to step; `unwritten` lists what prevents a script from being written;
`loss_source` writes the path from a batch to its loss as a torch module, which `port.translate` translates;
`step_source` writes the update around it; `proof` compares it with the original's on the script's batches, in float64,
and `step_proof` reports the result; `update` assembles everything. `clipping`, `optimizing`, `averaging` and
`lower_precision` cover the rest of an update, `replaying` the copies on which it is repeated, `rank_batches` several
processes, and `standalone` a folder that does not need port.
`trainer` writes the loop around the update, if it is simple enough: `loop` and `epochs` read it in the script,
`taken_statements` finds what makes the data, `loop_lines` what is made from a batch, `original_source` writes that and
the options, `trainer_source` the rest, and `trainer_files` puts both where they are compared. `own_trainer` does the
same for a loop without a DataLoader, with generators copied from the script: `own_batches`, `own_rates`.
"""
