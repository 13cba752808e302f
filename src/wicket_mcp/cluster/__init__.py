"""What several gateways need to act as one: who is there, what they seal for one another, who has what.

Loaded only where replicas are configured. Knows nothing of MCP, of calls or of databases: `store/postgres/` has the
means, the surface and the pool ask. Start at `members.py`.
"""
