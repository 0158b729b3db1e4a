"""`python -m gravitate` is the `gravitate` command."""

from gravitate.cli.main import main

main()
