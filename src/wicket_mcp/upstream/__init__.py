"""Connections to the servers behind us: start, negotiate, call, stop. Knows nothing about calls or dialects."""
