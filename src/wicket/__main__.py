"""`python -m wicket`."""

from wicket.cli import main

main()
