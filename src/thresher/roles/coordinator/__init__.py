"""The coordinator: takes queries, charges the ledger, runs rounds, keeps releases."""
