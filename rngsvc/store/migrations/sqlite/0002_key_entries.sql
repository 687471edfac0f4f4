-- Changes of the log's key are few, and are read at every start and for receipts.

CREATE INDEX entry_key ON entry (position) WHERE kind = 'key';
