"""Evaluated runs, grouped into what may be compared, and the figures of the paper."""
