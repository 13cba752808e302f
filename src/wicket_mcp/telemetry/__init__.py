"""What Wicket tells about itself while it runs, made safe to read.

Owns logging, the removal of control characters (`log`) and the masking of secrets (`redact`), here and only here.
Must not know configuration, servers or the protocol. Start reading at `redact`.
"""
