"""The HTTP side of the roles: routes, tokens, limits, and the process that serves them."""
