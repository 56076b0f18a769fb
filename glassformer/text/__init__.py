"""Text ↔ ids. Nothing here knows of tensors or models.

tokenizers.py           the one `Tokenizer` that every model of text uses
tokenizer_choice.py     which kind of tokenizer suits a text, and its size
tokenizer_training.py   how each kind of vocabulary is learned
chunks.py               long text in pieces that encode to the same ids
framing.py              the special tokens around a text that is read as a whole
words_and_subwords.py   words and the tokens that spell them
sentences.py            a text that is too long, cut into sentences
streaming.py            ids back to text while they are being generated
"""
