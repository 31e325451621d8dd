"""Where the numbers of a captured run come from: literals, attributes, lengths, and what is worked out of those."""
