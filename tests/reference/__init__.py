"""Second implementations: slow, simple, written from the pages alone, sharing no code with the packages."""
