"""State behind Protocols (`base.py`); `sqlite.py` is the default."""
