"""Naming labels: what texts, words and images with labels share."""
