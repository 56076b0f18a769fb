"""A corpus from the web: links that people recommended, their pages, and the text of these."""
