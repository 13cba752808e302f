"""The shared daemon: one gateway process for all clients of a user with the same configuration, folder and environment.

Owns the inherited listening socket and lock, the connections, when it ends, and its hand-over to a newer installation.
The gateway itself is the normal one; the other side of the socket is `wicket_mcp.shim`. Start with `server.py`.
"""
