"""`python -m everlearn`."""

from everlearn.cli import main

main()
