"""Models written twice, by hand: as a PyTorch and as a Flax person writes them, neither derived from the other.

Their names, their structure and their layouts differ; only the network is the same. `agreement` runs both sides.
"""
