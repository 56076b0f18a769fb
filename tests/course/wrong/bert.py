"""Typical wrong solutions of the notebook on BERT, and words of what is said about each."""

from typing import Any

import torch
from torch.nn import functional as F


def hide(ids: Any, mask: int, num_special: int, vocab_size: int, **change: Any) -> Any:
    luck = torch.rand(change.get("shape", ids.shape)).expand(ids.shape)
    is_asked = luck < change.get("share", 0.15)
    if change.get("spares_special", True):
        is_asked = is_asked & (ids >= num_special)
    how = torch.rand(ids.shape)
    shown = ids.clone()
    at_random = torch.randint(change.get("least", num_special), vocab_size, ids.shape)
    if change.get("one_token"):
        at_random = at_random[0, 0].expand(ids.shape)
    masked, replaced = change.get("masked", 0.8), change.get("replaced", 0.9)
    shown[is_asked & (how < masked)] = mask
    is_replaced = is_asked & (how >= masked) & (how < replaced)
    shown[is_replaced] = at_random[is_replaced]
    return shown, is_asked


def in_place(ids: Any, mask: int, num_special: int, vocab_size: int) -> Any:
    is_asked = (torch.rand(ids.shape) < 0.15) & (ids >= num_special)
    ids[is_asked] = mask
    return ids, is_asked


def only_changed(ids: Any, *given: Any) -> Any:
    shown, _ = hide(ids, *given)
    return shown, shown != ids


def all_masked(ids: Any, *given: Any) -> Any:
    return hide(ids, *given, masked=1.0)


def anywhere(ids: Any, mask: int, num_special: int, vocab_size: int) -> Any:
    shown, is_asked = hide(ids, mask, num_special, vocab_size)
    elsewhere = (torch.rand(ids.shape) < 0.015) & (ids >= num_special)
    return torch.where(elsewhere, num_special, shown), is_asked


def seeded(*given: Any) -> Any:
    torch.manual_seed(0)
    return hide(*given)


def with_rate(*given: Any) -> Any:
    shown, is_asked = hide(*given)
    return shown, is_asked.float()


def each_loss(logits: Any, targets: Any) -> Any:
    return F.cross_entropy(logits.mT, targets, reduction="none")


def blanked(logits: Any, targets: Any, is_asked: Any) -> Any:
    return F.cross_entropy((logits * is_asked[..., None]).mT, targets * is_asked)


def by_softmax(logits: Any, targets: Any, is_asked: Any) -> Any:
    chosen = logits[is_asked].softmax(-1).gather(1, targets[is_asked][:, None])
    return -chosen.log().mean()


def all_pieces(word_of: Any, labels: Any) -> Any:
    return [-100 if word is None else labels[word] for word in word_of]


def last_piece(word_of: Any, labels: Any) -> Any:
    after = [*word_of[1:], None]
    pairs = zip(word_of, after, strict=True)
    return [-100 if word is None or word == next else labels[word] for word, next in pairs]


def falsy(word_of: Any, labels: Any) -> Any:
    before = [None, *word_of[:-1]]
    pairs = zip(word_of, before, strict=True)
    return [labels[word] if word and word != old else -100 for word, old in pairs]


def by_label(word_of: Any, labels: Any) -> Any:
    every = all_pieces(word_of, labels)
    pairs = zip(every, [None, *every[:-1]], strict=True)
    return [-100 if label == old else label for label, old in pairs]


def counted(word_of: Any, labels: Any) -> Any:
    found, number = [], 0
    for word, old in zip(word_of, [None, *word_of[:-1]], strict=True):
        is_first = word is not None and word != old
        found.append(labels[number] if is_first else -100)
        number += is_first
    return found


def specials_too(word_of: Any, labels: Any) -> Any:
    pairs = zip(word_of, ["none", *word_of[:-1]], strict=True)
    return [-100 if word == old else labels[word or 0] for word, old in pairs]


def shortened(word_of: Any, labels: Any) -> Any:
    return [label for label in all_pieces(word_of, labels) if label != -100]


WRONG: dict[str, list[tuple[str, Any]]] = {
    "mask_tokens": [
        ("in place", in_place),
        ("its token is special", lambda *given: hide(*given, spares_special=False)),
        ("must be predicted all the same", only_changed),
        ("every token to predict was changed", all_masked),
        ("is not to be predicted", anywhere),
        ("not 15%", lambda *given: hide(*given, share=0.3)),
        ("all three shares", lambda *given: hide(*given, masked=0.5)),
        ("one half", lambda *given: hide(*given, replaced=0.98)),
        ("which is special", lambda *given: hide(*given, least=0)),
        ("different ones", lambda *given: hide(*given, one_token=True)),
        ("same positions", lambda ids, *given: hide(ids, *given, shape=ids.shape[1:])),
        ("draw anew", seeded),
        ("not bool", with_rate),
    ],
    "masked_loss": [
        ("only copied", lambda z, y, asked: each_loss(z, y).mean()),
        ("not asked", lambda z, y, asked: each_loss(z, y)[~asked].mean()),
        ("divide by", lambda z, y, asked: (each_loss(z, y) * asked).mean()),
        ("not the mean", lambda z, y, asked: each_loss(z, y)[asked].sum()),
        ("zeros have a loss", blanked),
        ("rounds", by_softmax),
        ("not a number", lambda z, y, asked: each_loss(z, y) * asked),
    ],
    "first_subwords": [
        ("the others have −100", all_pieces),
        ("a word begins", last_piece),
        ("0 is the number", falsy),
        ("same label", by_label),
        ("look up the label", counted),
        ("None belongs to no word", specials_too),
        ("one for each token", shortened),
    ],
}
