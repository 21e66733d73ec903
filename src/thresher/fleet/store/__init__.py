"""What each role keeps: SQLite files or PostgreSQL schemas, one per role."""
