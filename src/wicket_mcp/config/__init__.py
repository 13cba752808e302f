"""What the user configured: read, expanded, checked; no side effects."""
