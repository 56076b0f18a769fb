"""The training itself: a run that has been set up, from its last saved state to the end."""

import logging
import shutil
import signal
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, TextIO

import lightning.pytorch as lightning
import torch
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import Tensor
from torch.utils.data import DataLoader

from glassformer.checkpoint.folder import save_model
from glassformer.data.tokens import Batch, StepSampler, Windows
from glassformer.errors import GlassformerError
from glassformer.generation.logits import Sampling
from glassformer.generation.sample import decode
from glassformer.models.language_model import LanguageModel
from glassformer.runtime import Setup, seed_step
from glassformer.text.streaming import continuation
from glassformer.training.begin import (
    build_model,
    bytes_per_parameter,
    count_parameters,
    use_machine,
)
from glassformer.training.card import model_card
from glassformer.training.evaluate import Evaluation, evaluate
from glassformer.training.metrics import Metrics
from glassformer.training.objectives import NextToken
from glassformer.training.outcome import Outcome
from glassformer.training.prepare import Prepared, prepared
from glassformer.training.progress import Progress
from glassformer.training.recipe import DecidedTraining, essence
from glassformer.training.run_folder import RunFolder
from glassformer.training.steward import Duties, StateIO, Steward
from glassformer.wording import readable_size

PRECISIONS: dict[str, Any] = {
    "float32": "32-true",
    "bfloat16": "bf16-mixed",
    "float16": "16-mixed",
}
SAMPLE_TOKENS = 80


def fit(run: RunFolder, stream: TextIO, until: int | None = None) -> Outcome:
    """Train from the last good state of a run, or from its beginning if there is none.

    `until` is a step to save and stop at before the end.
    """
    with _quiet():
        recipe = run.recipe()
        setup = use_machine(recipe)
        return _fit(prepared(recipe, run.path), run, setup, stream, until)


def _fit(
    ready: Prepared, run: RunFolder, setup: Setup, stream: TextIO, until: int | None
) -> Outcome:
    config = ready.recipe.decided
    seed_step(config.seed, 0)
    model = build_model(ready.recipe)
    context = model.context_length
    batch_size = config.per_device_train_batch_size
    _check_room(run, model, config)
    first, news = _where_to_begin(run, ready)
    tokens_per_step = batch_size * context * config.gradient_accumulation_steps
    with (
        closing(Metrics(run.path, first, config.report_to)) as metrics,
        Progress(stream, tokens_per_step) as progress,
    ):
        progress.say(_headline(ready, model, setup))
        for line in news:
            progress.say(line)
        module = NextToken(model, config)
        duties = _duties(ready, run, module.result)
        steward = Steward(
            run, config, duties, metrics, progress, essence(ready.recipe), first, until
        )
        trainer = lightning.Trainer(
            accelerator="gpu" if setup.device.startswith("cuda") else setup.device,
            devices=1,
            precision=PRECISIONS[setup.precision],
            max_steps=config.max_steps,
            accumulate_grad_batches=config.gradient_accumulation_steps,
            gradient_clip_val=config.max_grad_norm or None,
            callbacks=[steward],
            plugins=[StateIO()],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        loader = _loader(Windows(ready.training, context, config.seed), config, first)
        # Lightning's own answer to SIGTERM can come before the first step; ours is to stop, too.
        with _signals(steward), suppress(SIGTERMException):
            trainer.fit(
                module,
                loader,
                ckpt_path=run.checkpoint(first) if first else None,
                weights_only=False,  # our own reader has no code to run; True would be torch's
            )
    standing = steward.standing
    return Outcome(
        folder=run.path,
        step=standing.step,
        max_steps=standing.max_steps,
        best_loss=standing.best_loss,
        best_step=standing.best_step,
        stopped_by=None if steward.is_finished else steward.stopped_by,
        stopped_early=steward.has_given_up,
        opening=ready.opening(),
    )


def _where_to_begin(run: RunFolder, ready: Prepared) -> tuple[int, list[str]]:
    """The last good step, after which all is made anew; and what a person should know of it."""
    first, damaged = run.last_good_step()
    news = [f"warning: {problem}" for problem in damaged]
    if first:
        run.check_recipe(first, essence(ready.recipe))
        if run.standing(first)["best_step"] is not None:
            gone = [run.path / name for name in run.lost()]
            news += [f"warning: {path} is gone. It begins anew from here." for path in gone]
        news.append(f"going on from step {first:,}")
    elif damaged:
        news.append("no undamaged state is left: the training begins again")
    run.forget_after(first)
    return first, news


def _check_room(run: RunFolder, model: LanguageModel, config: DecidedTraining) -> None:
    """Better told now than after the first hour."""
    needed = count_parameters(model) * bytes_per_parameter(config)
    if (free := shutil.disk_usage(run.path).free) < needed:
        raise GlassformerError(
            f"{run.path}: a saved state takes {readable_size(needed)}, and the disk has "
            f"{readable_size(free)} left. Make room there, then go on with --resume."
        )


def _loader(windows: Windows, config: DecidedTraining, first: int) -> DataLoader[Batch]:
    accumulation = config.gradient_accumulation_steps
    sampler = StepSampler(
        steps=config.max_steps * accumulation,
        batch_size=config.per_device_train_batch_size,
        first=first * accumulation,
    )
    return DataLoader(windows, batch_sampler=sampler, collate_fn=_tensor)


def _tensor(batch: Any) -> Tensor:
    return torch.from_numpy(batch)


def _duties(ready: Prepared, run: RunFolder, model: LanguageModel) -> Duties:
    tokenizer = ready.tokenizer
    end = tokenizer.end_of_text
    # A sample continues the validation text, so that it is never something learned by heart.
    opening = ready.opening()
    prompt = tokenizer.encode(opening) or ready.validation[:1].tolist()

    def validate() -> Evaluation:
        return evaluate(model, ready.validation, ready.validation_bytes, model.context_length)

    def sample(step: int) -> str:
        model.eval()
        steps = decode(
            model,
            [prompt],
            sampling=Sampling(temperature=0.8),
            max_new_tokens=SAMPLE_TOKENS,
            seed=step,
            is_finished=lambda row, token: token == end,
            device=model.device,
        )
        text = continuation(tokenizer, prompt, (token for (token,) in steps if token is not None))
        model.train()
        return opening + text

    def keep(found: Evaluation, step: int) -> None:
        card = model_card(ready, count_parameters(model), found, step)
        save_model(run.path, model, tokenizer, card)

    return Duties(validate, sample, keep)


def _headline(ready: Prepared, model: LanguageModel, setup: Setup) -> str:
    recipe = ready.recipe
    name = f"{recipe.model_name} {recipe.preset or ''}".rstrip()
    return (
        f"model: {name}, {count_parameters(model):,} parameters, "
        f"context {model.context_length}; {len(ready.training):,} tokens, "
        f"{recipe.training.max_steps:,} steps; {setup.device}, {setup.precision}, "
        f"{setup.threads} threads"
    )


@contextmanager
def _signals(steward: Steward) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the training after the step under way."""
    before = {number: signal.getsignal(number) for number in steward.SIGNALS}
    steward.heed_signals()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _quiet() -> Iterator[None]:
    """Lightning greets, advises and warns; what matters to a user we say ourselves."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning.*")
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
