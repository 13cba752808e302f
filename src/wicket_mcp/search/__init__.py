"""Finding the tools that fit a task, in-process: words, sub-words, small embeddings, usage.

Owns the index (one segment for each server), the ranking and the content of an answer. Must not know dialects, sessions
or how a tool is called. Start with `finder.py` (keeps the index up to date with the catalogue, off the event loop),
then `index.py` and `ranker.py`. Importing this package imports no numpy; the first search does.
"""

from wicket_mcp.search.answer import Answer, Explanation, Part, Withheld
from wicket_mcp.search.disclosure import Shown, disclose
from wicket_mcp.search.index import SearchIndex
from wicket_mcp.search.segment import build_segment

__all__ = ["Answer", "Explanation", "Part", "SearchIndex", "Shown", "Withheld", "build_segment", "disclose"]
