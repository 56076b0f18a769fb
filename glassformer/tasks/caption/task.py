"""Captions: predict each word from the words before it and the image.

    loss = mean of -log p(t_n | t_<n, image)        an image is read once for all of its captions

BLEU compares a caption with all captions of its image.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from glassformer.config import Count
from glassformer.data import image_sets
from glassformer.data.augmentation import AugmentationConfig, augment
from glassformer.data.batches import CaptionBatch, CaptionRows, CaptionTurns, ChosenImages
from glassformer.data.image_files import CaptionsConfig
from glassformer.data.image_store import IMAGES, ImageStore
from glassformer.errors import UsageError
from glassformer.inspect.chapters import Examination
from glassformer.inspect.places import caption_places
from glassformer.machine.seeds import step_seed
from glassformer.models import row
from glassformer.models.sources import CaptionDecoder
from glassformer.nn.loss import next_token_loss
from glassformer.preprocessing.images import CaptionPreprocessing, unit_range
from glassformer.progress import Notify
from glassformer.tasks import answers, fitting
from glassformer.tasks.caption import scores
from glassformer.tasks.caption.predictor import CaptionPredictor
from glassformer.tasks.recipe import Recipe, TokenizedRecipe
from glassformer.tasks.rows import TRAIN, image_to_try
from glassformer.tasks.task import Batches, Command, Dataset, Defaults, Source, Task, report_data
from glassformer.text.tokenizer_training import TokenizerConfig, has_spaces
from glassformer.text.tokenizers import START
from glassformer.wording import counted

VALIDATION, TEST = "validation.jsonl", "test.jsonl"
SHORTEST, LONGEST = 16, 128  # tokens of a caption that a model is made for, by default


class CaptionLossConfig(answers.AnswerLossConfig):
    """The settings of the loss of captions."""

    captions_per_image: Count = Field(5, ge=1)
    """Captions of an image in one batch. The image is read once for all of them; if it has more,
    they take turns."""
    doubly_stochastic: float = Field(0.0, ge=0)
    """Weight of a penalty on places of the image that are looked at too little, or too much, over a
    whole caption (show-attend-tell)."""


class CaptionAugmentation(AugmentationConfig):
    """How images are varied in training. Their captions stay the same: mirrored, what was left of
    something would be right of it, so by default images are only shifted."""

    shift: float = Field(0.05, ge=0, le=0.5)

    @model_validator(mode="after")
    def _is_one_image(self) -> Self:
        if self.mixes:
            raise ValueError("captions cannot be mixed: leave out mixup and cutmix")
        return self


class CaptionRecipe(TokenizedRecipe):
    """A recipe for images with captions."""

    data: CaptionsConfig
    augmentation: CaptionAugmentation = CaptionAugmentation()
    objective: CaptionLossConfig = CaptionLossConfig()


@dataclass
class CaptionSource(Source):
    """Captioned images in two parts; the pixels are in the folder of the data already."""

    images: image_sets.SplitImages
    preprocessing: CaptionPreprocessing
    encoded: list[list[list[int]]]
    """The captions of the training images."""

    @property
    def num_items(self) -> int:
        return len(self.images.split.training)

    @cached_property
    def _lengths(self) -> Any:
        return np.array([len(ids) - 1 for texts in self.encoded for ids in texts])  # without start

    def choices(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        values = fitting.tokenizer_choices(recipe, self.preprocessing.tokenizer)
        model = values["model"]
        model["num_channels"] = self.preprocessing.num_channels
        if recipe.model.get("image_size") is None:
            model["image_size"] = list(self.preprocessing.image_size)
        if recipe.is_open and not recipe.model.get("context_length"):
            model["context_length"] = answers.context_for([self._lengths], SHORTEST, LONGEST)
        return values

    def write(self, folder: Path, recipe: Recipe, notify: Notify) -> None:
        context = int(recipe.model["context_length"])
        training = self.images.split.training
        owners = [image for image, rows in zip(training, self.encoded, strict=True) for _ in rows]
        fits = self._lengths <= context
        answers.check_fits(fits, "training", "caption", lambda n: owners[n].source, context, notify)
        fitting = [[ids for ids in rows if len(ids) - 1 <= context] for rows in self.encoded]
        pairs = [pair for pair in zip(training, fitting, strict=True) if pair[1]]
        numbers = [image.number for image, _ in pairs]
        rows = CaptionRows.of([ids for _, ids in pairs], numbers, self.preprocessing.id_type)
        rows.save(folder / TRAIN)
        image_sets.write_image_list(folder / VALIDATION, self.images.split.validation)
        image_sets.write_image_list(folder / TEST, self.images.split.test)
        longest = max(int(rows.rows.lengths.max()) - 1, self.preprocessing.longest_caption or 0)
        self.preprocessing = self.preprocessing.model_copy(update={"longest_caption": longest})
        del self.images  # which are in an open file, which some systems cannot rename then


def read(recipe: CaptionRecipe, folder: Path, notify: Notify) -> CaptionSource:
    model: Any = row(recipe.model_name).model
    if recipe.objective.doubly_stochastic and not model.returns_weights:
        raise UsageError(
            f"objective.doubly_stochastic does not work with {recipe.model_name}, which has many "
            "heads of attention. Leave it out, or train show-attend-tell."
        )
    data = recipe.data
    if data.caption_column is None and data.text_column:
        data = data.model_copy(update={"caption_column": data.text_column[0]})
    architecture: Any = recipe.architecture()
    trained = fitting.kept_preprocessing(recipe, CaptionPreprocessing)
    choose: image_sets.ChooseSize = image_sets.median_size(multiple=architecture.patch_size)
    if trained is not None:
        data = data.model_copy(update=fitting.check_size(data, trained))
        choose = fitting.kept_size(trained, notify)
    elif data.image_size is None:
        data = data.model_copy(update={"image_size": architecture.image_size})
    images = image_sets.read_split_images(data, recipe.training.seed, folder, choose, "caption")
    split, store = images.split, images.store
    captions = [image.captions for image in split.training]
    total = sum(map(len, captions))
    amount = f"{counted(len(captions), 'image')} with {counted(total, 'caption')}"
    report_data(amount, split, notify, split.columns)
    if trained is None and data.image_size is None:
        height, width = store.size
        notify(
            f"images: resized to {height}×{width} pixels, the median of their shorter sides up to "
            "a limit. Pass --image-size to choose another size"
        )
    texts = [text for texts in captions for text in texts]
    if trained is not None and recipe.keeps_tokenizer:
        fitting.check_spelling(recipe.data_names, trained.tokenizer, set().union(*texts))
        tokenizer = trained.tokenizer
    else:
        kind = "word" if has_spaces(texts) else "bpe"
        default = TokenizerConfig(kind=kind, lowercase=True)
        tokenizer = fitting.learn_tokenizer(recipe, default, texts, [START], prefix=" ")
    if trained is not None:
        preprocessing = trained.changed(tokenizer=tokenizer, **images.columns)
    else:
        preprocessing = CaptionPreprocessing.of(
            store, image_sets.numbers_of(split.training), tokenizer=tokenizer, **images.columns
        )
    encoded = [preprocessing.encode_captions(texts) for texts in captions]
    return CaptionSource(images, preprocessing, encoded)


class CaptionDataset(Dataset):
    """Images with captions to learn from, and held-out ones."""

    unit = "image"
    preprocessing: CaptionPreprocessing
    training: CaptionRows

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(folder, recipe)
        self.store = ImageStore(folder / IMAGES)
        self.training = CaptionRows.load(folder / TRAIN)
        self.images = ChosenImages(self.store, self.training.numbers)
        self.held_out = image_sets.read_image_list(folder / VALIDATION, self.store)

    @cached_property
    def validation(self) -> CaptionRows:
        return scores.caption_rows(self.preprocessing, self.held_out)

    @property
    def default_batch_size(self) -> int:
        return min(64, max(8, len(self.training) // 20))

    def batches(self, batch_size: int, seed: int) -> Batches:
        config: Any = self.recipe
        turns = CaptionTurns(self.training, config.objective.captions_per_image, seed)

        def take(numbers: range) -> CaptionBatch:
            rows, owners = turns.rows(numbers)
            ids, is_learned = self.training.padded(rows, self.preprocessing.tokenizer.unknown)
            generator = torch.Generator().manual_seed(step_seed(seed, numbers.start) >> 1)
            images = unit_range(self.images[turns.images(numbers)])
            pixels = self.preprocessing.normalised(augment(images, config.augmentation, generator))
            return CaptionBatch(pixels, torch.from_numpy(owners), ids, is_learned)

        return Batches.sliced(take, batch_size, len(self.training) / batch_size)

    def describe(self) -> str:
        captions = counted(len(self.training.rows), "caption")
        return f"{counted(self.num_items, 'image')}, {captions}; {len(self.held_out):,} held out"

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"num_captions": len(self.training.rows)}

    def test_data(self) -> dict[str, Any] | None:
        images = image_sets.read_image_list(self.folder / TEST, self.store)
        return {"kept": images} if images else None


class CaptionObjective(answers.AnswerObjective):
    """Describe images."""

    dataset: CaptionDataset
    measures = ("loss", "bleu", "cider_d")

    def loss(self, model: CaptionDecoder, batch: CaptionBatch, **options: Any) -> Tensor:
        config: CaptionLossConfig = self.recipe.objective
        if not config.doubly_stochastic:
            return super().loss(model, batch, **options)
        hidden, weights = model.hidden_and_weights(batch.decoder_input, batch.memory(model))
        targets, is_learned = batch.decoder_targets
        loss = next_token_loss(
            hidden[is_learned], model.head, targets[is_learned], config.label_smoothing
        )
        return loss + config.doubly_stochastic * uneven_looks(weights, is_learned)

    def validate(self, model: CaptionDecoder) -> scores.CaptionResult:
        data, numbers = self.dataset, self.validated_numbers()
        loss = scores.caption_loss(model, data.preprocessing, data.store, data.validation)
        references = [data.held_out[number].captions for number in numbers]
        return scores.evaluate_captions(model, loss, references, lambda: self.write(model, numbers))

    @property
    def untrained_cost(self) -> float:
        """An untrained model writes until the length limit."""
        data = self.dataset
        longest = data.preprocessing.longest(data.model_config.context_length)
        return max(1.0, longest / float(np.mean(data.validation.rows.lengths)))

    def write(self, model: CaptionDecoder, numbers: Sequence[int]) -> tuple[list[str], int]:
        data = self.dataset
        images = ChosenImages(data.store, data.validation.numbers[np.array(numbers)])
        results = scores.search_captions(model, data.preprocessing, images, answers.GREEDY)
        return answers.texts_of(data.preprocessing, results)

    def source(self, number: int) -> str:
        return self.dataset.held_out[number].captions[0]

    def examine(self, model: CaptionDecoder) -> Examination:
        """Some held-out images, described, and where the model looked in a few of them."""
        data = self.dataset
        height, width = data.store.size
        numbers = self.examined_numbers(model, height * width // data.model_config.patch_size**2)
        texts, _ = self.write(model, numbers)
        images = [data.held_out[number] for number in numbers]
        scorer = scores.CaptionScorer([image.captions for image in images])
        seen = scores.examine_captions(scorer.compare(images, texts), len(data.held_out))
        shown = sorted({0, len(texts) // 3, 2 * len(texts) // 3, len(texts) - 1})
        predictor = CaptionPredictor(model, data.preprocessing)
        looks = [
            predictor.look(images[number].input, target=texts[number])
            for number in shown
            if texts[number]
        ]
        return replace(seen, chapters=(*seen.chapters, *caption_places(looks)))

    def trials(self, folder: Path | str) -> Sequence[Command]:
        first = self.dataset.held_out[0]
        return (("caption", folder, image_to_try(first.store, first.number)),)


def uneven_looks(weights: Tensor, is_learned: Tensor) -> Tensor:
    """Doubly stochastic attention: Σ over places of (1 - Σ over words of the weight)², per token.

    The weights of a word sum to one over the places; this asks those of a place to sum to one over
    the words, so that no part of the image is ignored. (R, T, N), (R, T) → ()
    """
    looked_at = (weights * is_learned[:, :, None]).sum(dim=1)  # (R, N)
    return (1 - looked_at).square().sum() / is_learned.sum()


TASK = Task(
    recipe=CaptionRecipe,
    read=read,
    dataset=CaptionDataset,
    objective=CaptionObjective,
    predictor=CaptionPredictor,
    defaults=lambda recipe: Defaults(
        epochs=40, fewest_steps=600, muon=4e-3, adamw=1e-3, weight_decay=0.1, ema=0.99
    ),
)
