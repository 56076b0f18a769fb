"""Pictures: images for slides and papers, and pages that need only a browser."""
