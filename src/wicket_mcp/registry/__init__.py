"""The registry: which MCP servers exist, who vouches for them, how healthy they are, and installing them.

Owns records, domains, health, installed servers and calls to servers that are not installed. Must not know a dialect or
HTTP: `dialects`, `surface/rest.py` and the command line come in through `facade.py`, which is where to start reading.
"""
