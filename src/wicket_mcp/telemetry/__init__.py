"""What Wicket reports about itself while it runs, made safe to read.

Owns logging, the removal of control characters (`log`) and the masking of secrets (`redact`), only here. Must not know
configuration, servers or the protocol. Start with `redact`.
"""
