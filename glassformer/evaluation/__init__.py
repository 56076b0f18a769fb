"""How good a model is. Each task has one type of result, computed by one function for validation
during training, `evaluate`, `compare` and the final test alike."""
