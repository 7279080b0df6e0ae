"""Spectral analyses of data sets: the frequency signature of polyp edges, and how specific it is to them."""
