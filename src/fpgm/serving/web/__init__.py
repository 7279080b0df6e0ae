"""The web page and its HTTP API."""
