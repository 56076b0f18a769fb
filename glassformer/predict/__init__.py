"""Models in use: text or numbers in; text, labels, probabilities and scores out.

The command line and Python both use this, so they cannot differ. A predictor has one method per
verb.

predictor.py        what all predictors have in common
language.py         continue a text (generate), score a text
    writing.py          settings of generation, and a text that grows up to its stop
    text_score.py       how likely a text is, token by token
masked.py           fill in what is hidden
classify.py         labels of texts or time series
tag.py              a tag for every word
translate.py        translate a text, score a translation, align the two
    word_alignment.py   where a translator looked; unknown words copied from there
"""
