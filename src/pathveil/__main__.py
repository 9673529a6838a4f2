"""``python -m pathveil`` is the same as ``pathveil``."""

import sys


def main() -> None:
    """Run a command. Ctrl-C ends it quietly while its modules are still being loaded, too."""
    try:
        from pathveil.cli import main as run
    except KeyboardInterrupt:
        print("Aborted!", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
