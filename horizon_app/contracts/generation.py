"""What is asked of a model that answers, and what it says: the words between a generator process and its owner."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

MOST_CHARACTERS = 1_000_000


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ChatMessage(_Words):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str = Field(max_length=MOST_CHARACTERS)


class TextAsked(_Words):
    """A prompt to continue or a conversation to answer, and how the tokens are chosen."""

    prompt: str | None = Field(
        default=None, min_length=1, max_length=MOST_CHARACTERS, description="text to continue, without a chat template"
    )
    messages: list[ChatMessage] | None = Field(
        default=None, min_length=1, max_length=1000, description="a conversation, by the tokenizer's chat template"
    )
    checkpoint: int | None = Field(default=None, ge=0, description="step of the checkpoint; the newest where null")
    max_new_tokens: int = Field(default=256, ge=1, le=32_768, description="most tokens of the answer")
    temperature: float = Field(default=0.0, ge=0.0, le=10.0, description="0 takes the likeliest token each time")
    top_k: int = Field(default=0, ge=0, description="tokens are drawn from this many likeliest; 0: from all")
    top_p: float = Field(default=1.0, gt=0.0, le=1.0, description="from the likeliest with this probability together")
    seed: int = Field(default=0, ge=0, lt=1 << 63, description="the same seed draws the same tokens")

    @model_validator(mode="after")
    def _one_of_both(self) -> "TextAsked":
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages")
        return self


class Generate(_Words):
    """Write the answer to this; `id` is one more than that of the request before."""

    type: Literal["generate"] = "generate"
    id: int
    asked: TextAsked


class CancelGeneration(_Words):
    """Nobody waits for the answer with this id any more."""

    type: Literal["cancel"] = "cancel"
    id: int


class GeneratorReady(_Words):
    """The model is loaded."""

    type: Literal["ready"] = "ready"
    checkpoint: int = Field(description="step of the checkpoint that answers")
    has_chat_template: bool = Field(description="whether messages are rendered by a template of the model's own")


class TextAdded(_Words):
    """More of the answer."""

    type: Literal["text"] = "text"
    text: str


class TextDone(_Words):
    """The answer is whole."""

    type: Literal["done"] = "done"
    text: str
    checkpoint: int = Field(description="step of the checkpoint that answered")
    prompt_tokens: int
    new_tokens: int = Field(description="tokens generated, the end mark left out")
    ending: Literal["stop", "length", "cancelled"] = Field(
        description="stop: the model ended it; length: max_new_tokens, or no position left; cancelled: nobody waited"
    )
    seconds: float


class TextRefused(_Words):
    """There is no answer; the text says why."""

    type: Literal["refused"] = "refused"
    message: str


GeneratorCommand = Annotated[Generate | CancelGeneration, Field(discriminator="type")]
GENERATOR_COMMAND: TypeAdapter[GeneratorCommand] = TypeAdapter(GeneratorCommand)
GeneratorEvent = Annotated[GeneratorReady | TextAdded | TextDone | TextRefused, Field(discriminator="type")]
GENERATOR_EVENT: TypeAdapter[GeneratorEvent] = TypeAdapter(GeneratorEvent)
