"""Find the origins of the numbers in a captured run: literals, attributes, lengths, and arithmetic on them."""
