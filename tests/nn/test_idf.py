import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from glassformer.nn.pooling import IdfPooling, inverse_document_frequency

TEXTS = [[1, 2, 5], [2, 3], [7, 0, 2, 1], [4]]


def tfidf():
    return TfidfVectorizer(analyzer=lambda text: text, vocabulary=range(9), lowercase=False).fit(
        TEXTS
    )


def test_the_frequencies_are_scikit_learns():
    found = inverse_document_frequency(map(torch.tensor, TEXTS), 9)
    torch.testing.assert_close(found.double(), torch.from_numpy(tfidf().idf_))


def test_a_repeated_token_is_counted_once_per_text():
    once, twice = ([torch.tensor(text)] for text in ([1, 2], [1, 2, 2, 1]))
    assert torch.equal(inverse_document_frequency(once, 4), inverse_document_frequency(twice, 4))


def test_pooling_one_hot_vectors_gives_the_row_of_tfidf():
    pooling = IdfPooling(9)
    pooling.see(map(torch.tensor, TEXTS))
    ids = torch.zeros(4, 4, dtype=torch.long)
    for row, text in zip(ids, TEXTS, strict=True):
        row[: len(text)] = torch.tensor(text)
    is_text = torch.arange(4) < torch.tensor([[len(text)] for text in TEXTS])
    found = pooling(torch.eye(9)[ids], ids, is_text)
    expected = torch.from_numpy(tfidf().transform(TEXTS).toarray())
    torch.testing.assert_close(found.double(), expected)


def test_a_row_without_tokens_is_zero():
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    ids = torch.ones(2, 3, dtype=torch.long)
    assert IdfPooling(9)(torch.ones(2, 3, 5), ids, nothing).eq(0).all()
