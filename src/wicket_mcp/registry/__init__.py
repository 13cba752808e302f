"""The registry: which MCP servers there are, who vouches for them, how well they are, and installing them."""
