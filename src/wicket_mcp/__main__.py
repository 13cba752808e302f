"""`python -m wicket_mcp`."""

from wicket_mcp.cli import main

main()
