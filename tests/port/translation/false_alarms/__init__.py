"""Right pairs that a proof must not call different: what is zero in exact arithmetic, or tiny by cancellation.

`generator` composes small modules around such quantities, `planted` holds the faults that the proof must see in spite
of them, `run` translates many and writes down what the proof says of each.
"""
