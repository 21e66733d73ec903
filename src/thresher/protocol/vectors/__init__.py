"""Test vectors: what a device in any language must give. Only `scripts/vectors` and tests import these modules."""
