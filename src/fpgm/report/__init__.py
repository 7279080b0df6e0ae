"""The report: tables, plots and pages from run folders. Needs no torch."""
