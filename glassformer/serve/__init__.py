"""Models behind a web server on this computer: the live story."""
