"""Describing images in words."""
