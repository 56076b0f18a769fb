"""Filling in hidden words."""
