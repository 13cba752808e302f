"""The shared daemon: one gateway process for all clients of a user with the same configuration, folder and environment.

Owns the listening socket and the lock that it was started with, who is connected, when it ends, and its hand-over to
a newer installation. The gateway is the same as anywhere; the other side of the socket is `wicket_mcp.shim`. Start
reading at `server.py`.
"""
