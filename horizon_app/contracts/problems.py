"""Problem documents (RFC 9457): one shape for every error on the wire and on the command line."""

from pydantic import BaseModel, ConfigDict, Field


class FieldProblem(BaseModel):
    """One thing wrong with one field of the input."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str = Field(description="dotted path of the field, for example offload.policy; empty for the whole input")
    message: str = Field(description="what is wrong, with the numbers")
    fix: str = Field(default="", description="what to do about it")
    file: str | None = Field(default=None, description="file the value came from, where there is one")
    line: int | None = Field(default=None, description="line in that file, counted from 1")


class Problem(BaseModel):
    """An RFC 9457 problem document."""

    model_config = ConfigDict(frozen=True)

    type: str = Field(default="about:blank", description="a stable name of the kind of problem")
    title: str = Field(description="the kind of problem in words")
    status: int = Field(description="HTTP status code")
    detail: str = Field(default="", description="what happened this time, with the numbers, and what to do")
    errors: list[FieldProblem] = Field(default_factory=list[FieldProblem], description="one entry per faulty field")


class SpecRefused(ValueError):
    """A run spec that can't run; carries one entry per faulty field."""

    def __init__(self, errors: list[FieldProblem]) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{e.field}: {e.message}" if e.field else e.message for e in errors))
