"""Turns a file into a `Config`: finding it, its syntax, its layout, and the secrets it refers to.

Knows the formats and locations of other programs' files. Must not change any file. Start with `formats.py`, which
combines `syntax` (text to data, with lines), `layouts` and `clients` (other programs' options to ours); `locate` and
`client_files` know where files are, `secrets` fills in references when a server starts.
"""
