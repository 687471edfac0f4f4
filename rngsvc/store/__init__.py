"""Where log, tables and hands are kept: one module a backend, each written natively against `rngsvc.ports.Store`."""
