"""The passes of micro-batches through stages: up, through the loss, and down. Which comes when is decided elsewhere.

Shape suffixes: S sequences of a micro-batch, T tokens of a sequence, H width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from horizon_app.engine.memory.geometry import Partition
from horizon_app.engine.model.staged import StagedModel
from horizon_app.engine.streaming.gradients import GradientGather
from horizon_app.engine.training.layer_inputs import LayerInputs
from horizon_app.engine.training.loss import SummedCrossEntropy
from horizon_app.engine.training.micro_batch import MicroBatch
from horizon_app.engine.training.random_state import random_state, set_random_state
from horizon_app.engine.training.stages import Stages

Group = Sequence[MicroBatch]


@dataclass(frozen=True, kw_only=True, slots=True)
class PassParts:
    """The parts that passes work with."""

    partition: Partition
    model: StagedModel
    stages: Stages
    gather: GradientGather
    inputs: LayerInputs
    chunk_tokens: int
    kept_layers: int


class StagePasses:
    """Runs one stage at a time on a group of micro-batches."""

    def __init__(self, parts: PassParts) -> None:
        self._p = parts
        self._stages, self._head = parts.stages, parts.stages.head
        self.kept_layers = parts.kept_layers
        self._kept_leaves: list[dict[str, torch.Tensor]] = [{} for _ in parts.partition.stage_names]
        self._scale = 1.0
        self._tokens = self._sequences = 1
        self._inputs: dict[tuple[int, int], torch.Tensor] = {}  # of layers whose graphs are kept

    def begin(self, scale: float, *, tokens: int, sequences: int) -> None:
        """A new optimizer step of so many trained tokens and sequences; gradients are multiplied by `scale`."""
        self._scale, self._tokens, self._sequences = scale, tokens, sequences

    def keeps(self, stage: int) -> bool:
        """Whether what is inside this layer waits for its backward: the last layers keep it for the shortest time."""
        return stage > self._p.model.num_layers - self.kept_layers

    def abandon(self) -> None:
        """Drop what a step that is given up has left on the device."""
        self._inputs.clear()
        self._kept_leaves = [{} for _ in self._kept_leaves]
        for leaf in self._p.model.resident.values():
            leaf.grad = None
        self._p.model.forget_rows()
        self._p.model.router.take()

    # -- up

    def embed(self, group: Group) -> None:
        """Look the tokens up, and learn what each layer will be given."""
        self._stages.enter_embedding()
        with torch.enable_grad():
            for m in group:
                prologue = self._p.model.prologue(m.input_ids, m.position_ids)
                m.embedded, m.calls, m.rows = prologue.hidden, prologue.calls, prologue.rows
                m.hidden = prologue.hidden.detach()

    def forward_layer(self, stage: int, group: Group) -> None:
        """One layer, upwards."""
        self._stages.enter(stage)
        gathered = self._stages.fill(stage)
        keep = self.keeps(stage)
        if keep:
            self._kept_leaves[stage] = gathered
        for m in group:
            hidden = _there(m.hidden).requires_grad_(keep)
            if keep:
                self._inputs[stage, m.index] = hidden
            else:
                self._p.inputs.keep((stage, m.index), hidden)
                if self._p.model.has_dropout:
                    m.random_states.append(random_state(hidden.device))
            with torch.set_grad_enabled(keep):
                output = self._p.model.layer(stage - 1, hidden, m.calls[stage - 1], gathered)
            if keep:
                m.outputs.append(output)
            if self._p.model.router.listens:
                m.routers[stage] = self._p.model.router.take()
            m.hidden = output.detach()

    # -- the loss

    def head_chunks(self, m: MicroBatch) -> int:
        """How many times the head's weights are asked for."""
        return len(m.chunks(self._p.chunk_tokens))

    def head(self, group: Group, *, last: bool) -> list[torch.Tensor]:
        """Final norm, LM head and loss of each micro-batch (a sum, fp64), with the gradient of what fed them.

        `last` says that no other group follows in this optimizer step.
        """
        self._stages.enter(self._head)
        losses = [self._head_of(m) for m in group]
        if self._p.model.router.listens:
            losses.append(self._router_loss(group))
        if last:
            # Taken again once a tied embedding has added its rows; now it tells whether the head was finite by itself.
            self._p.gather.norm_when_gathered(self._head)
        return losses

    def _head_of(self, m: MicroBatch) -> torch.Tensor:
        hidden_STH = _there(m.hidden).requires_grad_()
        m.hidden = None
        m.finite_S = torch.isfinite(hidden_STH.detach()).flatten(1).all(1)
        if m.targets.numel() == 0:
            m.gradient = torch.zeros_like(hidden_STH)
            return torch.zeros((), dtype=torch.float64, device=hidden_STH.device)
        with torch.enable_grad():
            picked = m.picked(self._p.model.epilogue(hidden_STH, m.position_ids))
        gradient = torch.empty_like(picked)
        losses: list[torch.Tensor] = []
        for rows in m.chunks(self._p.chunk_tokens):
            leaf = picked[rows].detach().requires_grad_()
            with torch.enable_grad():
                scale = self._scale / self._tokens
                loss = SummedCrossEntropy.apply(self._p.model.logits(leaf), m.targets[rows], scale)
            loss.backward()
            gradient[rows] = _there(leaf.grad)
            losses.append(loss.detach())
        picked.backward(gradient)
        m.gradient = _there(hidden_STH.grad)
        return torch.stack(losses).sum()

    def _router_loss(self, group: Group) -> torch.Tensor:
        """The router loss of all layers on the whole group, with the gradient of every router's logits.

        It is no sum over tokens, so it is taken of as many as there are; answers it times the step's trained tokens,
        for that is what the sum of losses is divided by.
        """
        stages = sorted(group[0].routers)
        leaves: list[torch.Tensor] = []
        for stage in stages:
            routers = zip(*(m.routers[stage] for m in group), strict=True)
            leaves += [torch.cat([logits.detach() for logits in router]).requires_grad_() for router in routers]
        share = sum(m.input_ids.shape[0] for m in group) / self._sequences
        with torch.enable_grad():
            loss = self._p.model.router_loss(leaves).float() * share
        (loss * self._scale).backward()
        gradients = iter(leaves)
        for stage in stages:
            for number in range(len(group[0].routers[stage])):
                parts = _there(next(gradients).grad).split([m.routers[stage][number].shape[0] for m in group])
                for m, part in zip(group, parts, strict=True):
                    m.router_gradients.setdefault(stage, []).append(part)
        return loss.detach().double() * self._tokens

    # -- down

    def backward_layer(self, stage: int, group: Group, *, last: bool) -> None:
        """One layer, downwards."""
        self._stages.step_on()
        kept = self.keeps(stage)
        gathered = self._kept_leaves[stage] if kept else self._stages.fill(stage)
        for m, following in zip(group, [*group[1:], None], strict=True):
            hidden = self._inputs.pop((stage, m.index)) if kept else self._p.inputs.take((stage, m.index))
            self._p.inputs.bring((stage - 1, group[0].index) if following is None else (stage, following.index))
            output = m.outputs.pop() if kept else self._recompute(stage, m, hidden, gathered)
            routers = m.routers.get(stage, []) if kept else self._p.model.router.take()
            torch.autograd.backward(
                [output, *routers], [_there(m.gradient), *m.router_gradients.get(stage, [])]
            )  # fmt: skip
            m.gradient = _there(hidden.grad)
            self._collect_gathered(stage, gathered)
        self._kept_leaves[stage] = {}
        self._collect_resident(stage)
        if last:
            self._p.gather.norm_when_gathered(stage)
        self._p.gather.poll()

    def _recompute(
        self, stage: int, m: MicroBatch, hidden: torch.Tensor, gathered: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        hidden.requires_grad_()
        with torch.enable_grad():
            if not m.random_states:
                return self._p.model.layer(stage - 1, hidden, m.calls[stage - 1], gathered)
            now = random_state(hidden.device)
            set_random_state(m.random_states.pop(), hidden.device)
            output = self._p.model.layer(stage - 1, hidden, m.calls[stage - 1], gathered)
            set_random_state(now, hidden.device)
            return output

    def backward_embedding(self, group: Group, *, last: bool) -> None:
        """Gradients of the embedding rows."""
        if self._stages.is_next(0):
            self._stages.step_on()
        for m in group:
            _there(m.embedded).backward(_there(m.gradient))
            for looked_up in m.rows:
                gradient = _there(looked_up.leaf.grad).to("cpu")
                if looked_up.padding_row is not None:
                    gradient[looked_up.rows == looked_up.padding_row] = 0
                parameter = self._p.partition.by_name[looked_up.parameter]
                self._p.gather.add_rows(parameter, looked_up.rows, gradient)
        for stage in (0, self._head):
            self._collect_resident(stage)
            if last:
                self._p.gather.norm_when_gathered(stage)

    # -- inside

    def _collect_gathered(self, stage: int, leaves: dict[str, torch.Tensor]) -> None:
        for parameter in self._p.model.gathered[stage]:
            gradient = leaves[parameter.name].grad
            if gradient is not None:
                self._p.gather.add_parameter(parameter, gradient)
                leaves[parameter.name].grad = None

    def _collect_resident(self, stage: int) -> None:
        for parameter in self._stages.resident_of[stage]:
            leaf = self._p.model.resident[parameter.name]
            if leaf.grad is not None:
                self._p.gather.add_parameter(parameter, leaf.grad)
                leaf.grad = None


def total_loss(losses: Sequence[torch.Tensor]) -> float:
    """The exact sum of losses of micro-batches."""
    return math.fsum(float(loss) for loss in losses)


def _there(tensor: torch.Tensor | None) -> torch.Tensor:
    if tensor is None:
        raise AssertionError("a stage ran before the one that feeds it")
    return tensor
