"""Models in use: text or numbers in; text, labels, probabilities and scores out. The command line
and Python both use this, so they cannot differ. A predictor has one method per verb."""
