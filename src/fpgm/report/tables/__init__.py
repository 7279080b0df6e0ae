"""Tables of scores and of significance, as Markdown, LaTeX, CSV and HTML."""
