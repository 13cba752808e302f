"""State behind Protocols (`base.py`), in the words of `model.py`; `open.py` chooses the implementation."""
