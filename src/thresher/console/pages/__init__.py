"""One module a page; each handler takes a visit and returns a response."""
