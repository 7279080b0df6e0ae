"""HTML pages: the report and the audit."""
