"""Data: raw pictures, prepared stores, splits, batches."""
