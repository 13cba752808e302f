"""The registry: which MCP servers exist, who owns them, how healthy they are, and how to install them.

Owns records, domains, health, installed servers and calls to servers that are not installed. Must not know a dialect or
HTTP: `dialects`, `surface/rest.py` and the command line use `facade.py`, which is where to start reading.
"""
