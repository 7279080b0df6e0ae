"""Batches for training: pools, views, streams."""
