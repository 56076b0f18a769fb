"""The judges of the exercises: a file for each notebook."""
