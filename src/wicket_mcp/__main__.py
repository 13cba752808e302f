"""`python -m wicket_mcp`."""

from wicket_mcp.shim.main import main

main()
