"""Plots: learning curves, spectra, predictions beside the truth, contact sheets."""
