"""Naming the label of a text or a time series."""
