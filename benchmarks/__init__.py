"""Each speed bar as a program that prints a ratio, both sides measured in one run. `python -m benchmarks [NAME...]`."""
