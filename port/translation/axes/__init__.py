"""What a model's axes are to each other, followed through what it computes: the names that its parameters' axes get."""
