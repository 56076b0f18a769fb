"""Translating sentences."""
