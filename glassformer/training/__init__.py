"""From a recipe to a trained model. The only package that imports Lightning, and only late."""
