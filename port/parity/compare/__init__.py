"""Two runs compared: tensors by the judge, layer by layer, mode by mode."""
