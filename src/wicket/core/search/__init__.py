"""Finding the tools that fit a task, in-process: words, sub-words, small embeddings, usage.

Everything else asks `SearchIndex`. Importing this package imports no numpy; the first search does.
"""

from wicket.core.search.answer import Answer, Explanation, Part, Withheld
from wicket.core.search.disclosure import Shown, disclose
from wicket.core.search.index import SearchIndex
from wicket.core.search.segment import build_segment

__all__ = ["Answer", "Explanation", "Part", "SearchIndex", "Shown", "Withheld", "build_segment", "disclose"]
