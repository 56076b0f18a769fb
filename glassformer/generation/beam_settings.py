"""How wide beam search looks, how it weighs length, and how different its results are."""

from pydantic import Field, model_validator

from glassformer.config import Config, Count

MOST_BEAMS = 1_000  # far more than has ever helped


class Beams(Config):
    """How to search. Names and meanings follow Hugging Face's."""

    num_beams: Count = Field(4, ge=1, le=MOST_BEAMS)
    num_return_sequences: Count = Field(1, ge=1)
    length_penalty: float = Field(1.0, ge=-10, le=10)
    """0: the likeliest sequence, which is often too short; above 0 favours longer ones."""
    no_repeat_ngram_size: Count | None = Field(None, ge=1)
    """No run of n tokens occurs twice."""
    num_beam_groups: Count = Field(1, ge=1)
    """Groups of beams that search separately, each avoiding what the groups before it chose."""
    diversity_penalty: float | None = Field(None, ge=0)
    """Subtracted from the score of a token for each group that has just chosen it (null: 0.5)."""

    @model_validator(mode="after")
    def _fits(self) -> "Beams":
        if self.num_return_sequences > self.num_beams:
            raise ValueError(
                f"num_return_sequences {self.num_return_sequences} is more than num_beams "
                f"{self.num_beams}; use fewer sequences or more beams"
            )
        if self.num_beams % self.num_beam_groups:
            raise ValueError(
                f"num_beams {self.num_beams} is not a multiple of num_beam_groups "
                f"{self.num_beam_groups}; change one of them"
            )
        if self.diversity_penalty and self.num_beam_groups == 1:
            raise ValueError("diversity_penalty works between groups: set num_beam_groups as well")
        return self

    @property
    def group_size(self) -> int:
        """Beams in a group."""
        return self.num_beams // self.num_beam_groups

    @property
    def diversity(self) -> float:
        return 0.5 if self.diversity_penalty is None else self.diversity_penalty

    def score(self, logprob: float, length: int) -> float:
        return logprob / length**self.length_penalty
