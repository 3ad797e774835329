"""``python -m sojourn`` is the command ``sojourn``."""

from sojourn.cli import main

if __name__ == "__main__":
    main()
