"""From a file to a `Config`: finding it, its syntax, its layout, and the secrets it refers to.

Owns what other programs' files look like and where they are. Must not change any file. Start reading at `formats.py`,
which puts `syntax` (text to data, with lines), `layouts` and `clients` (other programs' words to ours) together;
`locate` and `client_files` say where files are, `secrets` fills in references when a server starts.
"""
