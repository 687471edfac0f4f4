"""The commands of `dealer`, one module each."""
