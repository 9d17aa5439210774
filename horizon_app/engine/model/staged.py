"""A causal LM taken apart into stages that run one at a time, with streamed weights.

The model's own forward still decides masks, rotary embeddings and what each layer is given: it runs once per
micro-batch with proxies in place of its decoder layers, which note their arguments and pass the hidden states on. The
layers then run in whatever order the schedule asks. Knows nothing of arenas or copies.
"""

import inspect
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from transformers.pytorch_utils import Conv1D

from horizon_app.engine.errors import UnsupportedModel
from horizon_app.engine.memory.geometry import Parameter, Partition, Use
from horizon_app.engine.model.attention import attend_by_products
from horizon_app.engine.model.block_linear import BlockLinear, SegmentAccess
from horizon_app.engine.model.discovery import Discovered
from horizon_app.engine.model.fp32_norm import wrap_norms
from horizon_app.engine.model.lookup import HostLookup, RowGradient, look_up_on_host
from horizon_app.engine.model.router import RouterTap

NORM = "norm"
"""The word for norms, which are computed in fp32 in any case."""


@dataclass(kw_only=True, slots=True)
class LayerCall:
    """What the model's own forward gave one layer, besides the hidden states."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(kw_only=True, slots=True)
class SeenTokens:
    """What a model keeps of the tokens that it has passed already, in the cache class that it makes for itself."""

    attention_mask: torch.Tensor  # [sequences, tokens seen and those of the next pass], 0 where a place is padding
    cache: Any = None  # None until the first pass


@dataclass(kw_only=True, slots=True)
class Prologue:
    """A micro-batch on its way into the first layer."""

    hidden: torch.Tensor  # [sequences, tokens, width], with its graph back to the embedding rows
    calls: list[LayerCall]  # one a layer
    rows: list[RowGradient]


@dataclass(kw_only=True, slots=True)
class Rehearsal:
    """What the whole model made of two tokens without weights, and what took part in it."""

    output: torch.Tensor  # of the first token, one number; running backward from it shows the order of gradients
    rows: list[RowGradient]  # of the embeddings that were asked
    gathered: set[str] = field(default_factory=set[str])  # parameters that got a gradient from a workspace

    @property
    def sees_ahead(self) -> bool:
        """Whether, after backward, the first token's output turned out to depend on the second token."""
        seconds = [row.leaf.grad[1] for row in self.rows if row.leaf.grad is not None and row.rows.numel() == 2]
        return any(bool((gradient.isfinite() & (gradient != 0)).any()) for gradient in seconds)


class LayerProxy(nn.Module):
    """Stands in for a decoder layer inside the model's own forward."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        object.__setattr__(self, "layer", layer)
        self.calls: list[LayerCall] | None = None  # where to note the arguments; None runs the layer itself
        self.result: torch.Tensor | None = None  # handed on instead of the input
        self.first_input: torch.Tensor | None = None
        self.answers_tuple = False
        self.stand_ins: dict[str, torch.Tensor] = {}  # for parameters that are not streamed as products

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Note the arguments and hand the hidden states on; or run the layer, while its shape is being learnt."""
        if self.calls is None and self.result is None:
            layer: nn.Module = self.layer  # type: ignore[assignment]
            output = functional_call(layer, self.stand_ins, (hidden_states, *args), kwargs)
            self.answers_tuple = isinstance(output, tuple)
            return output
        if self.calls is not None:
            self.first_input = hidden_states
            self.calls.append(LayerCall(args=args, kwargs=kwargs))
        passed = hidden_states if self.result is None else self.result
        return (passed,) if self.answers_tuple else passed

    def __getattr__(self, name: str) -> Any:
        """Models ask their layers for attributes such as `attention_type`."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(object.__getattribute__(self, "layer"), name)


_RANDOM = ("drop", "jitter", "noise")
"""Words in the names of config fields that make a forward draw random numbers where they are above 0."""


class _HiddenStub(nn.Module):
    """Stands in for the base model while the causal model's own forward works on what has been computed already."""

    def __init__(self, base: nn.Module, router_logits: tuple[torch.Tensor, ...] | None = None) -> None:
        super().__init__()
        self._router_logits = router_logits
        self._parts = {name for name, _ in base.named_children()}

    def __getattr__(self, name: str) -> Any:
        """Families that ask a part of their base model, such as its `decoder`, get the same answer."""
        return self if name in self.__dict__.get("_parts", ()) else super().__getattr__(name)

    def forward(self, *_: Any, inputs_embeds: torch.Tensor, **__: Any) -> "_HiddenOnly":
        return _HiddenOnly(inputs_embeds, self._router_logits)


class _HiddenOnly:
    """A base model's output of which little is there; families differ in what else they name."""

    def __init__(self, last_hidden_state: torch.Tensor, router_logits: tuple[torch.Tensor, ...] | None) -> None:
        self.last_hidden_state = last_hidden_state
        self.router_logits = router_logits

    def __getitem__(self, index: int) -> torch.Tensor:
        return (self.last_hidden_state,)[index]

    def __getattr__(self, name: str) -> None:
        return None


class StagedModel:
    """The stages of one model. Small parameters (norms, biases) live on the device in fp32; the rest is streamed."""

    def __init__(
        self, found: Discovered, partition: Partition, access: SegmentAccess, *, device: torch.device,
        compute_dtype: torch.dtype, keep_fp32: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Linear layers with a word of `keep_fp32` in their name multiply in fp32. Raises UnsupportedModel."""
        self.partition, self.device, self.compute_dtype = partition, device, compute_dtype
        self._found, self._access = found, access
        self._keep_fp32 = [word for word in keep_fp32 if word != NORM]
        self.resident: dict[str, nn.Parameter] = {}
        self.lookups: list[HostLookup] = []
        self.gathered: list[list[Parameter]] = [
            [p for p in partition.parameters if p.stage == s and p.use is Use.GATHER and len(p.shape) > 1]
            for s in range(len(partition.stage_names))
        ]
        self._check_words([p.name for p in partition.parameters])
        self._bind()
        self.router = RouterTap(found)
        for owner in found.causal.modules():
            for key, buffer in owner.named_buffers(recurse=False):
                setattr(owner, key, buffer.to(device))
        self.layers = list(found.layers)
        self._proxies = [LayerProxy(layer) for layer in self.layers]
        for i, proxy in enumerate(self._proxies):
            found.layers[i] = proxy
        self._stub = _HiddenStub(found.base)

    @property
    def num_layers(self) -> int:
        """Number of decoder layers; stage 0 is the embedding, stage `num_layers + 1` the head."""
        return len(self.layers)

    @property
    def recurrent(self) -> str:
        """Why packed samples would leak into each other; empty where they don't."""
        return self._found.recurrent

    @property
    def has_dropout(self) -> bool:
        """Whether a forward draws random numbers, so that recomputation must replay them."""
        rates = [m.p for layer in self.layers for m in layer.modules() if isinstance(m, nn.Dropout)]
        config = self._found.causal.config.get_text_config().to_dict()
        rates += [v for k, v in config.items() if any(word in k for word in _RANDOM) and isinstance(v, float)]
        return any(rate > 0 for rate in rates)

    @contextmanager
    def evaluating(self) -> Generator[None]:
        """Until the context is left, dropout is off and whatever else differs in training."""
        parts = [self._found.causal, *self.layers]
        for part in parts:
            part.eval()
        try:
            yield
        finally:
            for part in parts:
                part.train()

    def prologue(self, input_ids: torch.Tensor, position_ids: torch.Tensor, seen: SeenTokens | None = None) -> Prologue:
        """Embed a micro-batch and learn what each layer will be given. Shapes: both [sequences, tokens].

        With `seen`, the tokens follow those; running the layers then adds them to its cache.
        """
        calls: list[LayerCall] = []
        for proxy in self._proxies:
            proxy.calls, proxy.result = calls, None
        if seen is None:
            self._forward_base(input_ids=input_ids, position_ids=position_ids)
        else:
            self._forward_seen(input_ids, position_ids, seen)
        hidden = self._proxies[0].first_input
        for proxy in self._proxies:
            proxy.first_input = None
        if hidden is None or len(calls) != self.num_layers:
            raise UnsupportedModel(f"the model called {len(calls)} of its {self.num_layers} layers")
        if any(isinstance(v, torch.Tensor) and v.requires_grad for c in calls for v in (*c.args, *c.kwargs.values())):
            raise UnsupportedModel("a decoder layer is given trained tensors besides the hidden states")
        return Prologue(hidden=hidden, calls=calls, rows=self._take_rows())

    def layer(
        self, index: int, hidden: torch.Tensor, call: LayerCall, gathered: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """One decoder layer on one micro-batch; `gathered` holds parameters that are not streamed as products."""
        module = self.layers[index]
        if gathered:
            prefix = f"{self._found.layers_name}.{index}."
            named = {name.removeprefix(prefix): tensor for name, tensor in gathered.items()}
            output = functional_call(module, named, (hidden, *call.args), call.kwargs)
        else:
            output = module(hidden, *call.args, **call.kwargs)
        return output[0] if isinstance(output, tuple) else output

    def epilogue(self, hidden: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """What the model does after its last layer (the final norm).

        Shapes: hidden and answer [sequences, tokens, width].
        """
        for proxy in self._proxies:
            proxy.calls, proxy.result = None, hidden
        # What goes in is not used, and families may scale it in place.
        final = self._forward_base(inputs_embeds=torch.zeros_like(hidden), position_ids=position_ids)
        self._take_rows()  # position embeddings looked up once more: what they are added to is not used
        return final

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The model's own logits, soft caps and scales included.

        Shapes: hidden [tokens, width], answer [tokens, vocabulary].
        """
        with self._standing_in({self._found.causal.base_model_prefix: self._stub}):
            return self._found.causal(inputs_embeds=hidden.unsqueeze(0), use_cache=False).logits[0]

    def router_loss(self, router_logits: Sequence[torch.Tensor]) -> torch.Tensor:
        """The loss that the model's own forward makes of the routers' logits of all layers, with its weight.

        Shapes: router_logits [tokens, experts], of each router in order.
        """
        # The LM head has nothing to do with it, and its weights are not asked for.
        stubs = {self._found.causal.base_model_prefix: _HiddenStub(self._found.base, tuple(router_logits))}
        with self._standing_in({**stubs, self._found.head_name: nn.Identity()}):
            nothing = torch.zeros(1, 1, 1, device=self.device)
            answer = self._found.causal(inputs_embeds=nothing, use_cache=False, output_router_logits=True)
        return answer.aux_loss * self.router.weight

    def rehearse(self) -> Rehearsal:
        """Run the whole model on two tokens without its weights, so that `access` sees the order of products.

        Numbers take the weights' places, for with zeros nothing would depend on anything.
        """
        touched: set[str] = set()
        with torch.no_grad():
            for leaf in self.resident.values():  # as long as nobody has put the weights there
                leaf.fill_(1.0)
        for stage, proxy in enumerate(self._proxies, start=1):
            proxy.calls = proxy.result = None
            prefix = f"{self._found.layers_name}.{stage - 1}."
            for p in self.gathered[stage]:
                proxy.stand_ins[p.name.removeprefix(prefix)] = self._stand_in(p, touched)
        ids = torch.arange(2, device=self.device).unsqueeze(0)
        hidden = self._forward_base(input_ids=ids, position_ids=ids)
        rows = self._take_rows()
        self.router.take()
        for proxy in self._proxies:
            proxy.stand_ins = {}
        return Rehearsal(output=self.logits(hidden[0])[0].sum(), rows=rows, gathered=touched)

    def _stand_in(self, parameter: Parameter, touched: set[str]) -> torch.Tensor:
        """Zeros in the parameter's shape, which take no memory before they are written; drops its gradient at once."""
        leaf = torch.zeros(parameter.shape, dtype=self.compute_dtype, device=self.device, requires_grad=True)

        def note(tensor: torch.Tensor) -> None:
            touched.add(parameter.name)
            tensor.grad = None

        leaf.register_post_accumulate_grad_hook(note)
        return leaf

    def _forward_base(self, **kwargs: Any) -> torch.Tensor:
        # attention_mask stays None: the model then keeps packed samples apart by their restarting positions.
        if not self._found.takes_positions:
            del kwargs["position_ids"]
        return self._found.base(use_cache=False, **kwargs).last_hidden_state

    def _forward_seen(self, input_ids: torch.Tensor, position_ids: torch.Tensor, seen: SeenTokens) -> None:
        # transformers renamed the argument; a family has one of the two.
        names = inspect.signature(self._found.base.forward).parameters
        word = "cache" if "cache" in names else "past_key_values"
        places = {"position_ids": position_ids} if self._found.takes_positions else {}
        output = self._found.base(
            input_ids=input_ids, attention_mask=seen.attention_mask, use_cache=True, **places, **{word: seen.cache}
        )
        seen.cache = output[word]

    @contextmanager
    def _standing_in(self, modules: Mapping[str, nn.Module]) -> Generator[None]:
        """Put `modules` in the places of the causal model's own, by path, for the length of the context."""
        causal = self._found.causal
        owners = {path: causal.get_submodule(path.rpartition(".")[0])._modules for path in modules}
        before = {path: owners[path][path.rpartition(".")[2]] for path in modules}
        try:
            for path, module in modules.items():
                owners[path][path.rpartition(".")[2]] = module
            yield
        finally:
            for path, module in before.items():
                owners[path][path.rpartition(".")[2]] = module

    def forget_rows(self) -> None:
        """Drop what embeddings have noted of micro-batches that are given up."""
        self._take_rows()

    def _take_rows(self) -> list[RowGradient]:
        rows = [gradient for lookup in self.lookups for gradient in lookup.collected]
        for lookup in self.lookups:
            lookup.collected = []
        return rows

    def _bind(self) -> None:
        """Replace linears, embeddings and norms in place, and give small parameters real memory."""
        causal = self._found.causal
        for name, module in list(causal.named_modules()):
            replacement = self._replacement(name, module)
            if isinstance(module, nn.Embedding):
                self._look_up_on_host(name, module)
            elif replacement is not None:
                parent, _, key = name.rpartition(".")
                causal.get_submodule(parent)._modules[key] = replacement
        for name, parameter in list(causal.named_parameters()):
            if parameter.is_meta and parameter.dim() < 2:
                self._make_resident(name)
        if self.compute_dtype != torch.float32:
            wrap_norms(causal)
        if self.compute_dtype == torch.bfloat16 and self.device.type == "cpu":
            attend_by_products(causal)

    def _replacement(self, name: str, module: nn.Module) -> nn.Module | None:
        parameter = self.partition.by_name.get(f"{name}.weight")
        if parameter is None or parameter.use not in (Use.LINEAR, Use.CONV1D):
            return None
        rows, columns = parameter.shape
        inside, outside = (columns, rows) if parameter.use is Use.LINEAR else (rows, columns)
        segments = self.partition.segments_in(parameter)
        bias = module.bias if isinstance(module, nn.Linear | Conv1D) else None
        return BlockLinear(
            use=parameter.use, in_features=inside, out_features=outside, segments=segments, access=self._access,
            bias=bias, dtype=torch.float32 if self._stays_fp32(name) else self.compute_dtype,
            out_dtype=torch.float32 if self._stays_fp32(name) and name == self._found.head_name else None,
        )  # fmt: skip

    def _look_up_on_host(self, name: str, embedding: nn.Embedding) -> None:
        parameter = self.partition.by_name.get(f"{name}.weight")
        if parameter is None or parameter.use is Use.LOOKUP:
            weight = f"{self._found.head_name if parameter is None else name}.weight"
            self.lookups.append(look_up_on_host(embedding, weight, self.device, self.compute_dtype))

    def _stays_fp32(self, name: str) -> bool:
        return any(word in name for word in self._keep_fp32)

    def _check_words(self, names: Sequence[str]) -> None:
        unknown = [word for word in self._keep_fp32 if not any(word in name for name in names)]
        if unknown:
            raise UnsupportedModel(
                f"precision.keep_fp32 names {', '.join(unknown)}, but no layer of the model has that in its name; the "
                f"last layer's are {', '.join(n for n in names if f'.{self._found.num_layers - 1}.' in n)}"
            )

    def _make_resident(self, name: str) -> None:
        parent, _, key = name.rpartition(".")
        owner = self._found.causal.get_submodule(parent)
        real = nn.Parameter(torch.zeros(owner._parameters[key].shape, dtype=torch.float32, device=self.device))  # type: ignore[union-attr]
        owner._parameters[key] = real
        self.resident[name] = real
