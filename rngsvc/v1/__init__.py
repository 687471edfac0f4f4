"""Generated from `proto/rngsvc/v1`; never edited by hand (`make proto`)."""
