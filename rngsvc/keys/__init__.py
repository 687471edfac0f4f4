"""The keys of the service: where they lie, what they do, how they are made.

`location` says where a key lies and reads it; `signing` signs checkpoints; `wrapping` encrypts the data keys under
which secrets are stored; `token` does both with keys that stay in a PKCS#11 token; `loading` finds the right one.
`identity` says who a client certificate stands for; `making` writes new keys, `development_ca` certificates for trying
things out. No key is ever in a message, a repr or an exception.
"""
