"""What several gateways need to act as one: membership, sealed messages between them, and ownership.

Loaded only if replicas are configured. Knows nothing about MCP, calls or databases: `store/postgres/` implements it,
the surface and the pool use it. Start with `members.py`.
"""
