-- As in SQLite. The one writer numbers journal and ledger itself, so that a copy needs no sequence to be set.

CREATE TABLE tables (id BYTEA PRIMARY KEY, game TEXT NOT NULL, stakes TEXT NOT NULL, snapshot TEXT);

CREATE TABLE journal (
    table_id BYTEA  NOT NULL REFERENCES tables (id),
    number   BIGINT NOT NULL,
    entry    TEXT   NOT NULL,
    PRIMARY KEY (table_id, number)
);

CREATE TABLE ledger (number BIGINT PRIMARY KEY, debit TEXT NOT NULL, credit TEXT NOT NULL, amount BIGINT NOT NULL);

CREATE TABLE accounts (name TEXT PRIMARY KEY, balance BIGINT NOT NULL);

CREATE TABLE hands (
    table_id BYTEA  NOT NULL REFERENCES tables (id),
    hand     BIGINT NOT NULL,
    players  TEXT   NOT NULL,
    history  TEXT   NOT NULL,
    receipt  TEXT   NOT NULL,
    PRIMARY KEY (table_id, hand)
);
