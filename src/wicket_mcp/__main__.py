"""`python -m wicket_mcp`. The command `wicket`, or `python -P -m wicket_mcp`, is safe in any folder; this is not quite.

Python has put the current folder before its own library, and has imported this package by then. The folder is removed
before anything else is imported.
"""

import sys

from wicket_mcp.interpreter import imports_from_here

if imports_from_here():
    del sys.path[0]

from wicket_mcp.shim.main import main

main()
