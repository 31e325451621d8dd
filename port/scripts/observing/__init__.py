"""Watches a PyTorch training script from inside its own process, which runs it as its user does.

`python -m port.scripts.observing FOLDER --watch 4 -- train.py …` (`__main__`, `running`) watches by torch's own hooks:
`modules` (calls, constructors), `functions` (what is computed between the modules), `updates` (optimizers, schedulers,
averages), `loading` (DataLoaders), `around` (options, seeds, what is printed and saved). `graph` keeps how each tensor
was computed, for the path from a batch to its loss; `lines` says where in the user's code something happens; `watch`
says when enough was seen. What is seen goes into `journal`, a line of JSON an event. Nothing here imports jax.
"""
