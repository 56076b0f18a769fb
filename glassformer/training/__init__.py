"""From a recipe to a trained model. Only this package imports Lightning Fabric, and only late."""
