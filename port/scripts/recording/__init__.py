"""A whole run of each side, recorded for the verdict: the script as it is, and the trainer that was written of it.

`original_run` is the script's, in its own process, under the observers of `port.scripts.observing` (`__main__` starts
it); `written_run` is what a written ``train.py`` takes under ``--record``. Both begin with the same weights, draw their
data by the same generators (`port.scripts.own_draws`), what the model draws by the same keys, and neither knows of
the other's process.
Started by `port train`, which judges the records.
"""
