"""``python -m pathveil`` is the same as ``pathveil``."""

from pathveil.cli import main

main()
