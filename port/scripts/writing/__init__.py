"""One update of an observed script, written in JAX, in the script's own process, where its model is.

`capture` keeps what the first watched steps were given; `unwritten` says what keeps a script from being written;
`loss_source` writes the path from a batch to its loss as a torch module, which `port.translate` translates;
`step_source` writes the update around it; `proof` makes it beside the original's on the script's own batches, in
float64; `update` puts all of it together.
`trainer` writes the loop around the update, where it is plain: `loop` reads it in the script, `taken_statements` finds
what makes the data, `original_source` writes that and the options, and `trainer_source` the rest.
"""
