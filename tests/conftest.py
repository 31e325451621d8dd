"""What holds for all tests."""

try:
    import torch.backends
except ModuleNotFoundError:  # tests/test_without_torch.py
    pass
else:
    # torch's module database, which several tests read, freezes torch's backend flags when it is imported. The trainers
    # set some of them, in the same process.
    torch.backends.disable_global_flags = lambda: None
