"""The notebook on BERT: hiding tokens, the loss on what is hidden, and labels of words."""

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.course.checking import (
    Solution,
    Wrong,
    exercise,
    final_scores,
    finished_run,
    is_close,
)

if TYPE_CHECKING:
    pass

IGNORED = -100

# --- hiding tokens ---

MASK, SPECIAL, VOCABULARY = 3, 4, 60


@exercise
def mask_tokens(function: Solution) -> None:
    """15% of the tokens to predict: 80% hidden, 10% random, 10% as they are"""
    ids = torch.randint(SPECIAL, VOCABULARY, (400, 300))
    ids[:, 0], ids[:, -1], ids[7, 200:] = 1, 2, 0
    shown, is_asked = _hidden(function, ids)
    is_special = ids < SPECIAL
    if (is_asked & is_special).any():
        row, column = (is_asked & is_special).nonzero()[0].tolist()
        raise Wrong(
            f"position {column} of row {row} is to be predicted, but its token is special",
            "only ids from num_special upwards are words.",
        )
    if (changed := (shown != ids) & ~is_asked).any():
        row, column = changed.nonzero()[0].tolist()
        raise Wrong(
            f"position {column} of row {row} was changed, but is not to be predicted",
            "first choose what is to be predicted; only there, tokens may change.",
        )
    asked, before = shown[is_asked], ids[is_asked]
    is_masked, is_same = asked == MASK, asked == before
    words = slice(1, 199)  # where no row is padded
    if (is_asked[:5, words] == is_asked[:1, words]).all():
        raise Wrong("in every row, the same positions are hidden", "draw for each token.")
    share = float(is_asked.sum() / (~is_special).sum())
    if len(asked) and not is_same.any():
        raise Wrong(
            "every token to predict was changed",
            "10% stay as they are, and must be predicted all the same.",
        )
    if not 0.14 < share < 0.16:
        raise Wrong(f"{share:.0%} of the words are to be predicted, not 15%")
    _check_shares(float(is_masked.float().mean()), float(is_same.float().mean()))
    random_tokens = asked[~is_masked & ~is_same]
    if (random_tokens < SPECIAL).any():
        raise Wrong(
            f"a random token is {int(random_tokens.min())}, which is special",
            "draw from the ids that are words.",
        )
    if len(random_tokens.unique()) < (VOCABULARY - SPECIAL) * 0.9:
        raise Wrong(
            f"the random tokens are only {len(random_tokens.unique())} different ones",
            "draw a token for each position, from the whole vocabulary.",
        )
    again = _hidden(function, ids)[1]
    if torch.equal(is_asked, again):
        raise Wrong(
            "the same positions are hidden in each call",
            "draw anew: so the model meets each text with other gaps.",
        )


def _hidden(function: Solution, ids: Tensor) -> tuple[Tensor, Tensor]:
    found = function(ids, MASK, SPECIAL, VOCABULARY)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise Wrong("it does not return two tensors", "return shown, is_asked.")
    for name, each in zip(("what is shown", "is_asked"), found, strict=True):
        if not isinstance(each, Tensor):
            raise Wrong(f"{name} is a {type(each).__name__}, not a tensor")
        if each.shape != ids.shape:
            raise Wrong(f"the shape of {name} is {tuple(each.shape)}, not {tuple(ids.shape)}")
    shown, is_asked = found
    if is_asked.dtype != torch.bool:
        kind = str(is_asked.dtype).removeprefix("torch.")
        raise Wrong(f"the type of is_asked is {kind}, not bool")
    if shown.dtype != torch.long:
        kind = str(shown.dtype).removeprefix("torch.")
        raise Wrong(f"the type of what is shown is {kind}, not int64", "tokens are integers.")
    return shown, is_asked


def _check_shares(masked: float, same: float) -> None:
    if 0.78 < masked < 0.82 and 0.08 < same < 0.125:
        return
    problem = (
        f"of the tokens to predict, {masked:.0%} are hidden, {1 - masked - same:.0%} random and "
        f"{same:.0%} as they are"
    )
    hint = "80% are hidden, 10% random, 10% as they are: all three shares are of the 15%."
    if 0.78 < masked < 0.82:
        hint = "of those that are not hidden, one half is replaced, the other is not."
    raise Wrong(problem, hint)


# --- the loss ---


@exercise
def masked_loss(function: Solution) -> None:
    """The loss of masked tokens: only what was asked counts"""
    for rows, length, size in ((3, 7, 11), (1, 4, 5), (4, 6, 3)):
        logits, targets = 2 * torch.randn(rows, length, size), torch.randint(size, (rows, length))
        is_asked = torch.rand(rows, length) < 0.3
        is_asked[0, :2] = True
        found = function.number(logits, targets, is_asked)
        each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        some = each[is_asked.flatten()]
        if is_close(found, some.mean()):
            continue
        problem = f"it is {found:.4f}, not {some.mean():.4f}"
        if is_close(found, each.mean()):
            raise Wrong(problem, "it counts all positions: most were shown and only copied.")
        if is_close(found, each[~is_asked.flatten()].mean()):
            raise Wrong(problem, "it counts the positions that were not asked.")
        if is_close(found, some.sum() / each.numel()):
            raise Wrong(problem, "divide by the number of positions that were asked.")
        if is_close(found, some.sum()):
            raise Wrong(problem, "it is the sum, not the mean.")
        if is_close(found, -some.mean()):
            raise Wrong(problem, "mind the sign: −ln p is positive.")
        blanked = F.cross_entropy(
            (logits * is_asked[..., None]).flatten(0, 1), (targets * is_asked).flatten()
        )
        if is_close(found, blanked):
            raise Wrong(problem, "logits of zeros have a loss, too: choose rows instead.")
        raise Wrong(problem, "take logits and targets where is_asked, then cross-entropy.")
    logits = torch.tensor([[[0.0, 200.0], [0.0, 0.0]]])
    found = function.number(logits, torch.tensor([[0, 1]]), torch.tensor([[True, False]]))
    if not is_close(found, 200.0):
        raise Wrong(
            f"a very unlikely token gives {found}, not 200",
            "use log_softmax or cross_entropy: softmax rounds e^−200 to 0.",
        )


# --- labels of words for tokens ---


@exercise
def first_subwords(function: Solution) -> None:
    """Labels of words for their tokens: only the first piece of a word has one"""
    for word_of, labels in _tokenized():
        found = function([*word_of], [*labels])
        if isinstance(found, Tensor):
            found = found.tolist()
        if not isinstance(found, list | tuple):
            raise Wrong(f"it returned a {type(found).__name__}, not a list")
        if len(found) != len(word_of):
            raise Wrong(
                f"it returned {len(found)} labels for {len(word_of)} tokens",
                "one for each token: pieces without a label have −100.",
            )
        wanted = _first_labels(word_of, labels)
        for at, (one, right) in enumerate(zip(found, wanted, strict=True)):
            if one != right:
                raise Wrong(*_explain_label(word_of, labels, at, one, right))


def _tokenized() -> Iterator[tuple[list[int | None], list[int]]]:
    yield [None, 0, 1, 2, None], [5, 6, 7]
    yield [None, 0, 0, 1, 2, 2, 2, None], [4, 0, 9]
    yield [None, 0, 1, 1, 2, None, None, None], [3, 3, 3]
    yield [0, 1, 1], [2, 8]
    yield [None, 0, 2, 2, 3, None], [1, 5, 6, 7]  # nothing is left of word 1
    drawn = random.Random(0)
    for _ in range(4):
        sizes = [drawn.randint(1, 3) for _ in range(6)]
        words = [word for word, size in enumerate(sizes) for _ in range(size)]
        yield [None, *words, None], drawn.choices(range(3), k=6)


def _first_labels(word_of: list[int | None], labels: list[int]) -> list[int]:
    found = []
    for at, word in enumerate(word_of):
        is_first = word is not None and (at == 0 or word_of[at - 1] != word)
        found.append(labels[word] if word is not None and is_first else IGNORED)
    return found


def _explain_label(
    word_of: list[int | None], labels: list[int], at: int, found: Any, wanted: int
) -> tuple[str, str]:
    word = word_of[at]
    problem = f"for word_of = {word_of}, the label of token {at} is {found}, not {wanted}"
    if word is None:
        return problem, "None belongs to no word: a special token, or padding."
    if wanted == IGNORED:
        return problem, "the first piece of a word has its label, the others have −100."
    if found != IGNORED:
        return problem, "word_of has the number of the word: use it to look up the label."
    if word == 0 and word_of[at : at + 2] != [0, 0]:
        return problem, "0 is the number of a word, too; only None is none."
    if word_of[at - 1] is not None and labels[word - 1] == labels[word]:
        return problem, "neighbouring words may have the same label: compare words."
    return problem, "a word begins where its number is not that of the token before."


# --- does pre-training help? ---

SAME = (
    *("data.paths", "data.test_paths", "training.max_steps", "training.seed"),
    *(f"model.{name}" for name in ("num_layers", "d_model", "num_heads", "bag")),
)


@exercise
def pretraining_helps(pretrained: Any, fresh: Any) -> None:
    """Experiment: what a classifier gains from text without labels"""
    runs = [finished_run(each, "classifier") for each in (pretrained, fresh)]
    tuned, plain = (run.recipe().model_dump(mode="json") for run in runs)
    if not tuned["finetune"]:
        hint = "make it from a trained BERT, with glassformer.finetune."
        if plain["finetune"]:
            hint = "the fine-tuned run comes first."
        raise Wrong(f"the run in {runs[0].path} was not fine-tuned", hint)
    if plain["finetune"]:
        raise Wrong(
            f"the run in {runs[1].path} was fine-tuned as well",
            "what is it compared with? Train one with glassformer.train.",
        )
    if tuned["finetune"]["freeze"]:
        raise Wrong("the encoder was frozen in one run and not in the other")
    for key in SAME:
        part, name = key.split(".")
        one, other = tuned[part][name], plain[part][name]
        if one != other:
            raise Wrong(
                f"{key} is {one} in one run and {other} in the other",
                "the two runs may differ only in where they begin.",
            )
    _check_gain(*(final_scores(run) for run in runs))


def _check_gain(pretrained: dict[str, Any], fresh: dict[str, Any]) -> None:
    one, other = pretrained["accuracy"], fresh["accuracy"]
    low, high = pretrained["accuracy_interval"][0], fresh["accuracy_interval"][1]
    both = f"{one:.0%} of the test with pre-training, {other:.0%} without"
    if one <= other:
        raise Wrong(
            f"the claim does not hold for these runs: {both}",
            "does the BERT fill gaps well? If not, train it for longer.",
        )
    if low <= high:
        raise Wrong(
            f"the claim cannot be seen in these runs: {both}, but the 95% intervals overlap",
            "test on more texts, or train the BERT for longer.",
        )
