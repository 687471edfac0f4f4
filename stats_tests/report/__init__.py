"""Reports: one canonical JSON document, its signature, and what people read, rendered from it."""
