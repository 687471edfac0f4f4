"""The commands of `rngsvc`, one module each, and what they share: exit codes, output, connection options."""
