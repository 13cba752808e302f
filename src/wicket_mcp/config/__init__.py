"""What the user configured: read, checked and, on request, changed.

Owns every option (`model`), every file format for lists of servers (`read`), and the edits of `wicket.toml` and of
clients' files (`edit`). Must not know how a server is started, searched or served; reading has no side effects. Start
with `model/config.py`, then `read/formats.py`.
"""
