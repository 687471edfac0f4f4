"""The keys of the service: where they lie, what they do, how they are made.

`location` reads a key from where the configuration says; `signing` signs checkpoints; `wrapping` encrypts the data keys
under which secrets are stored; `identity` says who a client certificate stands for; `making` writes new keys,
`development_ca` certificates for trying things out. No key is ever in a message, a repr or an exception.
"""
