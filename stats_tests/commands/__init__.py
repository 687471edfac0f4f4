"""The commands of `stats_tests`, a module each."""
