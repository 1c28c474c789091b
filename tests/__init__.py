"""Tests of nbmapops."""
