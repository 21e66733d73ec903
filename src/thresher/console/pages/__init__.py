"""One module for each page. A handler takes a `PageRequest` and returns a response."""
