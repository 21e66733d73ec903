"""Generators of the test vectors in docs/protocol/vectors/ that say what devices decide."""
