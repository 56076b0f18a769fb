"""Decoding: ids in, ids out. Knows no tokenizer and no model, only the protocol of a decoder."""
