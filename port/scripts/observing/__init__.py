"""Watch a PyTorch training script from inside its process, which runs it as its user does.

`python -m port.scripts.observing FOLDER --watch 4 -- train.py …` (`__main__`, `running`) watches by torch's hooks:
`modules` (calls, constructors), `functions` (what is computed between the modules), `updates` (optimizers, schedulers,
averages), `loading` (DataLoaders), `around` (options, seeds, what is printed and saved). `graph` records how each
tensor was computed, for the path from a batch to its loss; `lines` locates events in the user's code; `watch` decides
when enough was seen. Events go into `journal`, one JSON line each. Nothing here imports jax.
"""
