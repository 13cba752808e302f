"""Connections to the servers behind us: start, negotiate, call, stop. Knows nothing of core or dialects."""
