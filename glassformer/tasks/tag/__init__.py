"""Naming a label for every word of a sentence."""
