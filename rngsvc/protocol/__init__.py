"""What anyone needs to check a hand: pure functions of bytes, with no clock, no I/O and no network."""
