"""``fpgm data``: one module per command."""
