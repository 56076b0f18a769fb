"""Models behind a local web server: the live story, and later the API."""
