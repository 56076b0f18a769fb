"""Text ↔ ids. Nothing here knows of tensors or models."""
