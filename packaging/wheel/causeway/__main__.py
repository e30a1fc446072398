"""`python -m causeway` is `causeway`."""

from causeway import main

main()
