-- A finished hand drops its table's journal: without this the journals of all tables are read for it.

CREATE INDEX journal_table ON journal (table_id, number);
