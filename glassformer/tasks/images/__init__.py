"""Naming the label of an image."""
