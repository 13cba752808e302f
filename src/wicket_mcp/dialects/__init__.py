"""The vocabularies an agent may speak: tables of tools over the verbs, with no state of their own.

A dialect sees the catalogue only as its caller's view, and reaches servers only through the verbs. Start with
`base.py` (what a dialect is) and `native.py` (the default one); `factory.py` has one record for each.
"""
