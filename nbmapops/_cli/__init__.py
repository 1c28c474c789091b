"""The command: ``nbmapops`` and ``python -m nbmapops``."""
