"""`wicket serve` over stdio: a small process that carries bytes between its client and the user's shared daemon.

Owns finding or starting the daemon, the client's session while daemons come and go, and typed errors for what was in
flight when one died. Imports the standard library alone, and little of that: a client waits for every module. Must not
know configuration beyond which file it is. Start reading at `main.py`; the other side is `wicket_mcp.daemon`.
"""
