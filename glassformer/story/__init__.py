"""The pictures: images for slides and papers, and pages that need nothing but a browser."""
