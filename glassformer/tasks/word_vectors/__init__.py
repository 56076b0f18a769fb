"""Vectors of words, learned from their neighbours."""
