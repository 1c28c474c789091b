"""Engines: a MapBatch becomes a result, in plain Python or in compiled code."""
