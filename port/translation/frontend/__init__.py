"""From a torch module and example inputs to the graph: export, leaf modules, source locations, diagnostics."""
