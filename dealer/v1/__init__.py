"""Generated from `proto/dealer/v1`; never edited by hand (`make proto`)."""
