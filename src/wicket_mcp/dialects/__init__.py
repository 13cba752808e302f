"""The vocabularies that an agent may use: tables of tools over the verbs, without state.

A dialect sees the catalogue only as its caller's view, and reaches servers only through the verbs. Start with
`base.py` (what a dialect is) and `native.py` (the default one); `factory.py` has one record for each.
"""
