"""Parts that two or more methods share."""
