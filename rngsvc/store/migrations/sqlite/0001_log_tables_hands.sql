-- The log, its tables and hands. Everything but `head` and a sample's digest is only ever added to.

-- One row: where the log stands. Writers compare and swap it.
CREATE TABLE head (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    size       INTEGER NOT NULL,
    root       BLOB    NOT NULL,
    checkpoint BLOB    NOT NULL,
    time       INTEGER NOT NULL  -- ms since 1970 UTC; openings move it too
) STRICT;

-- The log entries by position, counted from 0.
CREATE TABLE entry (
    position INTEGER PRIMARY KEY,
    kind     TEXT NOT NULL,
    entry    BLOB NOT NULL
) STRICT;
CREATE INDEX entry_result ON entry (position) WHERE kind IN ('audit', 'integrity');

-- Full tiles of the Merkle tree: 256 hashes of tree level 8 * level.
CREATE TABLE tile (
    level  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    hashes BLOB    NOT NULL,
    PRIMARY KEY (level, number)
) STRICT;

CREATE TABLE card_table (
    card_table BLOB    PRIMARY KEY,  -- 16 bytes
    position   INTEGER NOT NULL,     -- of its `table` entry
    owner      TEXT    NOT NULL      -- who registered it
) STRICT, WITHOUT ROWID;

-- The life of each hand, step by step; step 0 is its reservation. Rows of one table lie together.
CREATE TABLE step (
    card_table BLOB    NOT NULL,
    seq        INTEGER NOT NULL,
    n          INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    position   INTEGER,           -- of its log entry; an opening has none
    secret     BLOB    NOT NULL,  -- sealed: the seed (step 0) or the contributed seeds
    time       INTEGER NOT NULL,  -- openings only, as are k and places (u16 big-endian each)
    k          INTEGER NOT NULL,
    places     BLOB    NOT NULL,
    PRIMARY KEY (card_table, seq, n)
) STRICT, WITHOUT ROWID;

-- The wrapped data key of each table and UTC day; deleting a row destroys that day's secrets.
CREATE TABLE data_key (
    card_table BLOB    NOT NULL,
    day        INTEGER NOT NULL,
    wrapped    BLOB    NOT NULL,
    PRIMARY KEY (card_table, day)
) STRICT, WITHOUT ROWID;

-- Samples; the digest is empty until all data were sent.
CREATE TABLE sample (
    sample_id BLOB    PRIMARY KEY,
    position  INTEGER NOT NULL,
    sha256    BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
