"""What anyone needs to check a hand: pure functions of bytes, with no clock, no I/O and no network.

Start with `hand-protocol.md`, whose steps the modules name; `transparency-log.md` and `receipt.md` describe the log and
the file that a player takes home. To check such a file:

    report = verify(path.read_bytes(), log_key="cardroom.example/rng+1b2c3d4e+AZ..")
    for step in report.steps:
        print(step.outcome, step.claim, step.detail)
    report.require()  # raises ProofError if a step failed

A hand by hand, as a service, a player and an auditor do it:

>>> from rngsvc.protocol.card_seal import card_leaf, cards_root, salts, seal
>>> from rngsvc.protocol.commitment import commit, contribution_leaf, hand_context, promise
>>> from rngsvc.protocol.derivation import permute
>>> from rngsvc.protocol.merkle import root_of

The service commits to its seed (Step 1), a player promises his (Step 2) and gives it away once both are logged.

>>> origin, table, seq = "cardroom.example/rng", bytes(16), 1
>>> seed, his_id, his_seed = bytes(range(48)), b"seat-1", b"\\x11" * 32
>>> commitment = commit(table, seq, seed)
>>> promised = promise(origin, table, seq, his_id, his_seed)

Both are bound into the context (Step 3; `pre` would be the promise entry's leaf hash), the order follows (Step 4)
and is sealed (Step 5).

>>> contributions = root_of([contribution_leaf(0, his_id, his_seed)])
>>> context = hand_context(origin, table, seq, commitment, contributions, pre=bytes(32))
>>> order, used = permute(seed, context, 0, range(52))
>>> salt = salts(seed, context, 0, 52)
>>> leaves = seal(0, order, salt)
>>> root = cards_root(0, leaves)

Whoever is shown the first card checks it against the leaf that he already holds (Step 6).

>>> card_leaf(0, 0, order[0], salt[:16]) == leaves[0]
True
"""
