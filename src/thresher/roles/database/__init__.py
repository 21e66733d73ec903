"""Where each role keeps what must survive: SQLite files or PostgreSQL, by the same SQL."""
