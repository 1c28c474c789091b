"""``python -m nbmapops``."""

from nbmapops._cli.command import main

if __name__ == "__main__":
    raise SystemExit(main())
