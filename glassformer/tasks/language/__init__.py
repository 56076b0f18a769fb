"""Continuing and scoring texts."""
