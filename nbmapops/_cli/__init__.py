"""The command: ``python -m nbmapops``."""
