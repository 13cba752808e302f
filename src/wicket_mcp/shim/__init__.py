"""`wicket serve` over stdio: a small process that passes bytes between its client and the user's shared daemon.

Owns finding or starting the daemon, the client's session across daemons, and typed errors for calls in flight when a
daemon dies. Imports only a little of the standard library, because a client waits for every module. Must not know the
configuration, only its path. Start with `main.py`; the other side is `wicket_mcp.daemon`.
"""
