"""ImageGPT: a GPT over pixels, as transformers has it."""

import pytest
import torch
from torch import Tensor, nn
from transformers import ImageGPTConfig as TheirConfig
from transformers import ImageGPTForCausalImageModeling

from glassformer.errors import GlassformerError
from glassformer.generation.sampling import Sampling, decode
from glassformer.models.image_gpt import ImageGPT, ImageGPTConfig
from glassformer.models.presets import IMAGE_GPT_PRESETS

SIDE, COLORS = 6, 20
SHAPE = {"num_layers": 2, "d_model": 32, "num_heads": 4, "vocab_size": COLORS + 1}
SHAPE |= {"image_size": SIDE, "context_length": SIDE * SIDE}


def tiny(**more: object) -> ImageGPT:
    torch.manual_seed(0)
    return ImageGPT(ImageGPTConfig(**(SHAPE | {"initialization": "gpt2"} | more))).eval()


def pixels(number: int = 2) -> Tensor:
    return torch.randint(
        0, COLORS, (number, SIDE * SIDE), generator=torch.Generator().manual_seed(1)
    )


def with_start(model: ImageGPT, images: Tensor) -> Tensor:
    start = torch.full((len(images), 1), model.start_token)
    return torch.cat((start, images[:, :-1]), dim=1)


def test_it_gives_the_logits_of_transformers() -> None:
    shape = {"n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": SIDE * SIDE}
    theirs = ImageGPTForCausalImageModeling(TheirConfig(vocab_size=COLORS + 1, **shape)).eval()
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.2)
    ours = ImageGPT(ImageGPTConfig(**(IMAGE_GPT_PRESETS["igpt-s"] | SHAPE))).eval()
    names = {
        ".attn.c_proj": ".attention.output",
        ".attn.": ".attention.",
        "mlp.c_fc": "feedforward.up",
        "mlp.c_proj": "feedforward.down",
        "ln_1": "attention_norm",
        "ln_2": "feedforward_norm",
        "transformer.h.": "blocks.",
        "transformer.wte": "embedding",
        "transformer.wpe": "positions.table",
        "transformer.ln_f": "final_norm",
        "lm_head": "head",
    }
    weights = {}
    for name, weight in theirs.state_dict().items():
        if name.endswith(".weight") and (".attn." in name or ".mlp." in name):
            weight = weight.T  # its Conv1D is (in, out)
        for old, new in names.items():
            name = name.replace(old, new)
        if ".c_attn." in name:
            parts = zip(("query", "key", "value"), weight.chunk(3), strict=True)
            weights |= {name.replace("c_attn", part): chunk for part, chunk in parts}
        else:
            weights[name] = weight
    ours.load_state_dict(weights)
    ids = with_start(ours, pixels())
    expected = theirs(ids).logits
    assert expected.std() > 0.1
    torch.testing.assert_close(ours(ids), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("preset", "layers", "width", "heads", "millions"),
    [("igpt-s", 24, 512, 8, 76), ("igpt-m", 36, 1024, 8, 455), ("igpt-l", 48, 1536, 16, 1362)],
)
def test_presets_have_the_published_sizes(
    preset: str, layers: int, width: int, heads: int, millions: int
) -> None:
    with torch.device("meta"):
        ours = ImageGPT(ImageGPTConfig(**IMAGE_GPT_PRESETS[preset]))
        config = TheirConfig(n_layer=layers, n_embd=width, n_head=heads)
        theirs = ImageGPTForCausalImageModeling(config)
    counts = [sum(weight.numel() for weight in each.parameters()) for each in (ours, theirs)]
    assert counts[0] == counts[1]
    assert counts[0] // 10**6 == millions


def test_a_pixel_depends_only_on_those_above_and_to_its_left() -> None:
    model, images = tiny(), pixels(1)
    before = model(with_start(model, images))
    for place in (0, 7, SIDE * SIDE - 2):
        changed = images.clone()
        changed[0, place] = (changed[0, place] + 1) % COLORS
        after = model(with_start(model, changed))
        differs = (before != after).any(-1)[0]
        assert not differs[: place + 1].any()  # nor does the pixel see itself
        assert differs[place + 1 :].all()


def test_only_colours_are_predicted() -> None:
    model = tiny()
    assert model(with_start(model, pixels())).shape == (2, SIDE * SIDE, COLORS)
    assert model.start_token == COLORS


def test_decoding_with_a_cache_paints_what_reading_everything_would_predict() -> None:
    model, given = tiny(), pixels(1)[0, :10].tolist()
    prompt = [model.start_token, *given]
    steps = decode(
        model, [prompt], sampling=Sampling(do_sample=False), max_new_tokens=SIDE * SIDE - 10, seed=0
    )
    painted = [token for (token,) in steps]
    whole = torch.tensor([[*given, *painted]])
    assert whole.shape == (1, SIDE * SIDE)
    expected = model(with_start(model, whole)).argmax(-1)[0, 10:]
    assert painted == expected.tolist()


def test_the_states_of_all_layers_lead_to_the_head() -> None:
    model = tiny()
    ids = with_start(model, pixels())
    states = list(model.layers(ids))
    assert [state.shape for state in states] == [(2, SIDE * SIDE, 32)] * 3
    assert torch.equal(model.final_norm(states[-1]), model.hidden(ids))


def test_shapes_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="an image of 6×6 has 36 pixels"):
        ImageGPTConfig(**(SHAPE | {"context_length": 35}))
    with pytest.raises(ValueError, match="the start token is never predicted"):
        tiny(tie_weights=True)
    with pytest.raises(GlassformerError, match="needs image_size"):
        _ = ImageGPTConfig().size
