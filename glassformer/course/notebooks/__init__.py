"""The notebooks of the course, in its order. Their text is in the Markdown files beside this."""

NOTEBOOKS = (
    "baseline",
    "attention",
    "encoder",
    "gpt",
    "bert",
    "recurrent",
    "translation",
    "images",
    "corpus",
)
