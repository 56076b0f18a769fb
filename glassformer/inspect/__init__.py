"""What a model looked at, as plain arrays: no model, no tokenizer and no picture in here."""
