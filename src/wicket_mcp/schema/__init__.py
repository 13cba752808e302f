"""JSON Schemas of tools: checking arguments against them, and writing them as text.

Owns the reading of schemas that upstreams wrote, which may be broken or hostile: bounded work, no network, never an
exception. Must not know servers, connections or the catalogue. Start reading at `arguments.py` (checks, coercion) and
`typetext.py` (a schema as a type); `signature.py` writes a tool as one line, `field_list.py` as a list of fields.
"""
