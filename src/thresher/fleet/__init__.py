"""Fleets: devices that answer from what they hold, and the server that learns no one. See docs/protocol.md."""
