"""Wicket as an OAuth client of the servers behind it.

Owns discovery, registration, the authorization code flow, renewal and the grants between machines. Must not know MCP,
the pool or the surface: it is handed addresses and gives headers. Start reading at `credentials.py`, which connections
talk to, then `signin.py`, by which a person signs in. `discovery.py` and `messages.py` are sans I/O; `client.py` sends.
"""
