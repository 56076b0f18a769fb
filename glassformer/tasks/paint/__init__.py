"""Painting images pixel by pixel, and what a painter knows about images."""
