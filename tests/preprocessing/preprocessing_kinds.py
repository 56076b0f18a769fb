"""One example of each kind of preprocessing."""

from glassformer.preprocessing import Preprocessing
from glassformer.preprocessing.images import (
    CaptionPreprocessing,
    ImagePreprocessing,
    PalettePreprocessing,
)
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.series import SeriesPreprocessing
from glassformer.preprocessing.skip_gram import SkipGramPreprocessing
from glassformer.preprocessing.text import PairPreprocessing, TextPreprocessing
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS, START

TEXT = "a good film and a bad story"

WORDS = train_tokenizer("word", [TEXT], None, [START])
EXAMPLES: dict[str, Preprocessing] = {
    "plain": Preprocessing(),
    "text": TextPreprocessing(
        tokenizer=train_tokenizer("bpe", [TEXT]),
        text_column=("title", "body"),
        label_column="verdict",
        is_causal=True,
    ),
    "masked_text": MaskedTextPreprocessing(
        tokenizer=train_tokenizer("wordpiece", [TEXT], None, BERT_TOKENS),
        mlm_probability=0.3,
        whole_word_masking=True,
    ),
    "skip_gram": SkipGramPreprocessing(tokenizer=WORDS, window=3, subsampling=1e-5),
    "pair": PairPreprocessing(
        tokenizer=WORDS,
        target_tokenizer=train_tokenizer("word", ["ein guter Film"], None, [START]),
        source_column="en",
        target_column="Über",
        reverse=True,
    ),
    "pair, one vocabulary": PairPreprocessing(tokenizer=WORDS),
    "series": SeriesPreprocessing(
        text_column=("x", "y"), label_column="move", mean=(0.1, -1e30), deviation=(1 / 3, 2e-38)
    ),
    "image": ImagePreprocessing(
        image_size=(24, 32),
        num_channels=3,
        image_mean=(0.1, 1 / 3, 1.0),
        image_std=(0.2, 1e-3, 1.0),
        image_column="picture",
        label_column="animal",
    ),
    "palette": PalettePreprocessing(
        image_size=(2, 3), num_channels=3, palette=((0, 0, 0), (255, 0, 7), (9, 255, 255))
    ),
    "caption": CaptionPreprocessing(
        image_size=(16, 16),
        num_channels=1,
        image_mean=(0.5,),
        image_std=(0.25,),
        image_column="picture",
        tokenizer=WORDS,
        caption_column="said",
        longest_caption=7,
    ),
}
