"""What the user configured: read, checked and, on request, changed.

Owns every option (`model`), every file format in which a list of servers can be read (`read`), and the edits of
`wicket.toml` and of clients' files (`edit`). Must not know how a server is started, searched or served; reading has no
side effects. Start reading at `model/config.py`, then `read/formats.py`.
"""
