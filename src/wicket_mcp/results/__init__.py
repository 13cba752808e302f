"""Results of calls: what they mean, and how large ones are stored, shown in part and read by handle.

Owns the reading of a result's content, handles and the path language. Must not know how a call was made. Start with
`results.py`; `content.py` interprets a result's body, `paths.py` selects a part of a value, `outline.py` describes its
shape.
"""
