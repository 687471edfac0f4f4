-- The log, its tables and hands, as in SQLite. Everything but `head` and a sample's digest is only ever added to.

CREATE TABLE head (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    size       BIGINT  NOT NULL,
    root       BYTEA   NOT NULL,
    checkpoint BYTEA   NOT NULL,
    time       BIGINT  NOT NULL
);

CREATE TABLE entry (
    position BIGINT PRIMARY KEY,
    kind     TEXT  NOT NULL,
    entry    BYTEA NOT NULL
);
CREATE INDEX entry_result ON entry (position) WHERE kind IN ('audit', 'integrity');

CREATE TABLE tile (
    level  INTEGER NOT NULL,
    number BIGINT  NOT NULL,
    hashes BYTEA   NOT NULL,
    PRIMARY KEY (level, number)
);

CREATE TABLE card_table (
    card_table BYTEA PRIMARY KEY,
    position   BIGINT NOT NULL,
    owner      TEXT   NOT NULL
);

CREATE TABLE step (
    card_table BYTEA   NOT NULL,
    seq        BIGINT  NOT NULL,
    n          INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    position   BIGINT,
    secret     BYTEA   NOT NULL,
    time       BIGINT  NOT NULL,
    k          INTEGER NOT NULL,
    places     BYTEA   NOT NULL,
    PRIMARY KEY (card_table, seq, n)
);

CREATE TABLE data_key (
    card_table BYTEA  NOT NULL,
    day        BIGINT NOT NULL,
    wrapped    BYTEA  NOT NULL,
    PRIMARY KEY (card_table, day)
);

CREATE TABLE sample (
    sample_id BYTEA  PRIMARY KEY,
    position  BIGINT NOT NULL,
    sha256    BYTEA  NOT NULL
);
