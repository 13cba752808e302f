"""Wicket as an OAuth client of the servers behind it.

Owns discovery, registration, the authorization code flow, renewal and the grants between machines. Must not know MCP,
the pool or the surface: it gets addresses and returns headers. Start with `credentials.py`, which connections use, then
`signin.py`, for a person's sign-in. `discovery.py` and `messages.py` are sans I/O; `client.py` sends.
"""
