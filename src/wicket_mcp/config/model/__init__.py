"""The options, each declared once: name, type, default and help.

Owns the structs that the rest of Wicket reads, the check of plain values against them, and what is generated from them
(reference page, JSON Schema, help). Must not open a file. Start with `config.py` and `server.py`; `options.py` is the
check.
"""
