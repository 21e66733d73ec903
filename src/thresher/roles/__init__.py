"""Collector, aggregator and coordinator, each beside its own store."""
