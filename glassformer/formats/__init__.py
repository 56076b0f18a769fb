"""Models in other formats: each format of a file is a file, and a row of the table in `formats.py`;
each family of Hugging Face's models is a file, and a row of the table in `families`."""
