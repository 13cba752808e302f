"""State behind Protocols (`base.py`), with the records of `model.py`; `open.py` chooses the implementation."""
