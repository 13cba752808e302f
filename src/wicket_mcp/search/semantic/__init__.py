"""The `semantic` extra: all-MiniLM-L6-v2 in eight bits through onnxruntime, beside the static table.

Nothing here is imported unless the extra is installed and asked for. The weights come from an installed package
and stay there; the graph is made in memory when the encoder opens.
"""

from wicket_mcp.search.semantic.encoder import SentenceEncoder, installed

__all__ = ["SentenceEncoder", "installed"]
