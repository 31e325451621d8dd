"""Record a whole run of each side for the verdict: the unchanged script, and the trainer written from it.

`original_run` records the script in its process, under the observers of `port.scripts.observing` (`__main__` starts
it); `written_run` is what a written ``train.py`` uses under ``--record``. Both start from the same weights, draw data
with the same generators (`port.scripts.own_draws`) and dropout with the same keys, and neither needs the other's
process.
`port train` starts both and judges the records.
"""
