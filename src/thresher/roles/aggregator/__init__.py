"""The aggregator: opens reports, counts, thresholds, releases, forgets."""
