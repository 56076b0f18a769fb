"""A translation is as long as it wants to be, or reports that it was cut off."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from table_decoder import TableDecoder

from glassformer.generation.beam import Beams, beam_search
from glassformer.preprocessing.text import PairPreprocessing, TargetLength
from glassformer.text.tokenizer_training import train_tokenizer

WORDS = train_tokenizer("word", ["good film"])


@given(
    ratio=st.floats(0.1, 10),
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=20),
    new=st.integers(1, 60),
    extra=st.integers(-5, 60),
    context=st.integers(8, 300),
    num_beams=st.sampled_from([1, 3]),
)
@settings(max_examples=60, deadline=None)
def test_no_translation_is_cut_off_without_a_word(
    ratio: float, lengths: list[int], new: int, extra: int, context: int, num_beams: int
) -> None:
    """Of a model that would write ratio × source + extra tokens, if it could."""
    sources = np.array(lengths)
    known = TargetLength.of(sources, np.maximum(1, (ratio * sources).astype(int)))
    pair = PairPreprocessing(tokenizer=WORDS, target_length=known)
    wanted = max(1, int(ratio * new) + extra)  # with its end

    def predict(ids: list[int]) -> list[float]:
        return [0.0, 9.0, 1.0] if len(ids) < wanted else [9.0, 0.0, 1.0]

    limit = pair.longest_target(new, context)
    beams = Beams(num_beams=num_beams)
    (found,) = beam_search(TableDecoder(predict), [[1]], beams, max_new_tokens=limit, ends=(0,))
    is_whole = wanted <= limit
    assert found[0].finish_reason == ("stop" if is_whole else "length")
    if is_whole:
        assert len(found[0].ids) == wanted - 1
    if new in lengths and extra <= 0 and wanted <= context:
        assert is_whole
