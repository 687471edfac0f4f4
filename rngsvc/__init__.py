"""Cards dealt from a sealed, committed and logged shuffle."""
