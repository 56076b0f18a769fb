"""Models in other formats: each format is a file, and a row of the table in `import_model.py`."""
