"""Next token: loss = mean of -log p(t_n | t_<n) over all positions of all windows."""

import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from glassformer.inspect.chapters import Examination
from glassformer.models.heads import LanguageModel
from glassformer.nn.loss import next_token_loss
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.progress import Notify
from glassformer.tasks.evaluating import evaluating
from glassformer.tasks.language.predictor import GenerationSettings, LanguagePredictor
from glassformer.tasks.language.scores import LanguageResult, evaluate_language, examine_language
from glassformer.tasks.task import Command, Defaults, Objective, Task
from glassformer.tasks.text_windows import TextDataset, TextRecipe, TextSource, read_text
from glassformer.text.tokenizer_training import TokenizerConfig
from glassformer.wording import as_argument

SAMPLE_TOKENS = 80
ANSWERING = ("assistant", "gpt", "bot", "model")  # the roles of those who answer
QUESTION_TOKENS = 500  # in which the first answer of a conversation is looked for


def read(recipe: TextRecipe, folder: Path, notify: Notify) -> TextSource:
    settings = {"is_causal": True}
    return read_text(recipe, folder, notify, TokenizerConfig(), TextPreprocessing, settings)


class NextToken(Objective):
    """Predict each token from those before it."""

    dataset: TextDataset
    measures = ("loss", "bits_per_byte")

    def batch(self, number: int, most: int | None = None) -> Tensor:
        return torch.from_numpy(self.batches.batch(number, most))

    def loss(self, model: LanguageModel, batch: Tensor) -> Tensor:
        inputs, targets = batch[:, :-1], batch[:, 1:]  # (B, T): the targets are one further on
        return next_token_loss(model.hidden(inputs), model.head, targets)

    def validate(self, model: LanguageModel) -> LanguageResult:
        data = self.dataset
        return evaluate_language(model, data.validation, data.validation_size, model.context_length)

    def sample(self, model: LanguageModel, step: int) -> str:
        """A continuation of held-out text, which cannot have been memorised."""
        data, opening = self.dataset, self.dataset.opening()
        prompt = opening or data.preprocessing.tokenizer.decode(data.validation[:1].tolist())
        settings = GenerationSettings(temperature=0.8, max_new_tokens=SAMPLE_TOKENS, seed=step)
        with evaluating(model):
            predictor = LanguagePredictor(model, data.preprocessing)
            return opening + predictor.generate(prompt, settings).text

    def examine(self, model: LanguageModel) -> Examination:
        data = self.dataset
        return examine_language(model, data.validation, data.preprocessing.tokenizer)

    def trials(self, folder: Path | str) -> Sequence[Command]:
        opening = as_argument(self._question() or self.dataset.opening())
        return ("generate", folder, *opening), ("score", folder, *opening)

    def _question(self) -> str | None:
        """The first held-out conversation, up to the answer, if the data are conversations."""
        preprocessing, tokenizer = self.dataset.preprocessing, self.dataset.preprocessing.tokenizer
        end, ids = tokenizer.end_of_text, self.dataset.validation[:QUESTION_TOKENS].tolist()
        if end in ids[:1]:
            ids = ids[1:]
        first = ids[: ids.index(end)] if end in ids else ids
        readable = [id for id in first if id != tokenizer.unknown]
        return before_answer(tokenizer.decode(readable), preprocessing.chat_template)


def before_answer(text: str, template: Sequence[str]) -> str | None:
    """The beginning of a conversation up to where the first answer would be written: a prompt.
    None if the text is not a conversation of this template, or has no answer."""
    first, _, _ = "".join(template).partition("{content}")
    before, role, after = first.partition("{role}")
    if not (role and before and text.startswith(before)):
        return None
    names = "|".join(ANSWERING)
    answer = re.search(f"{re.escape(before)}(?:{names}){re.escape(after)}", text, re.IGNORECASE)
    return text[: answer.end()] if answer else None


TASK = Task(
    recipe=TextRecipe,
    read=read,
    dataset=TextDataset,
    objective=NextToken,
    predictor=LanguagePredictor,
    defaults=lambda recipe: Defaults(epochs=6),  # more, and a small model begins to memorise
)
