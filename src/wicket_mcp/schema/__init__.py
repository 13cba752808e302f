"""JSON Schemas of tools: checking arguments against them, and writing them as text.

Reads schemas from upstreams, which may be broken or hostile: limited work, no network, never an exception. Must not
know servers, connections or the catalogue. Start with `arguments.py` (checks, coercion) and `typetext.py` (a schema as
a type); `signature.py` writes a tool as one line, `field_list.py` as a list of fields.
"""
