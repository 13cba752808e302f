"""Finding the tools that fit a task, in-process: words, sub-words, small embeddings, usage.

Everything else asks `SearchIndex`. Importing this package imports no numpy; the first search does.
"""

from wicket_mcp.search.answer import Answer, Explanation, Part, Withheld
from wicket_mcp.search.disclosure import Shown, disclose
from wicket_mcp.search.index import SearchIndex
from wicket_mcp.search.segment import build_segment

__all__ = ["Answer", "Explanation", "Part", "SearchIndex", "Shown", "Withheld", "build_segment", "disclose"]
