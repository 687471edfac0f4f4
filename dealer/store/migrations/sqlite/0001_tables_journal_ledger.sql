-- Tables, what happened at them since they were last between two hands, the ledger, and finished hands.

CREATE TABLE tables (id BLOB PRIMARY KEY, game TEXT NOT NULL, stakes TEXT NOT NULL, snapshot TEXT) WITHOUT ROWID;

CREATE TABLE journal (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    table_id BLOB NOT NULL REFERENCES tables (id),
    entry    TEXT NOT NULL
);

CREATE TABLE ledger (number INTEGER PRIMARY KEY, debit TEXT NOT NULL, credit TEXT NOT NULL, amount INTEGER NOT NULL);

CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE hands (
    table_id BLOB    NOT NULL REFERENCES tables (id),
    hand     INTEGER NOT NULL,
    players  TEXT    NOT NULL,
    history  TEXT    NOT NULL,
    receipt  TEXT    NOT NULL,
    PRIMARY KEY (table_id, hand)
);
