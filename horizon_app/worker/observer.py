"""What is measured and shown of a model while it trains: the loss on held-out data, and text that it writes."""

import time
from collections.abc import Callable, Iterator

from horizon_app.contracts.events import SampleGenerated
from horizon_app.contracts.knobs import Knob
from horizon_app.contracts.run_spec import RunSpec
from horizon_app.data.batches import Batch
from horizon_app.engine.errors import EngineError
from horizon_app.engine.training.requests import Sampling
from horizon_app.worker.event_sink import EventSink
from horizon_app.worker.intervals import Intervals
from horizon_app.worker.parts import TrainingData, TrainingEngine, Writer


class _Stopped(Exception):
    """The run was asked to stop while something was measured."""


class Observer:
    """Looks at the model between two optimizer steps; what it does changes nothing in training."""

    def __init__(
        self, spec: RunSpec, data: TrainingData, engine: TrainingEngine, sink: EventSink, *, intervals: Intervals,
        writer: Callable[[], Writer], should_stop: Callable[[], bool],
    ) -> None:  # fmt: skip
        """`writer` is called once, where there are prompts. Raises what it raises."""
        self._spec, self._data, self._engine, self._sink = spec, data, engine, sink
        self._intervals, self._should_stop = intervals, should_stop
        self._writer = writer() if spec.samples.prompts else None
        self._prompts = [] if self._writer is None else [self._writer.prompt(text) for text in spec.samples.prompts]

    def after_step(self, step: int, *, last: bool) -> None:
        """Measure and show what is due after optimizer step `step`. Raises EngineError."""
        if self._data.num_eval_sequences > 0 and self._is_due(Knob.EVALUATION_EVERY, step, last=last):
            self._evaluate(step)
        if self._writer is not None and self._is_due(Knob.SAMPLES_EVERY, step, last=last):
            self._sample(step, self._writer)

    def _is_due(self, knob: Knob, step: int, *, last: bool) -> bool:
        return self._intervals.is_due(knob, step) or (last and self._intervals.is_on(knob))

    def _evaluate(self, step: int) -> None:
        begin = time.perf_counter()
        try:
            found = self._engine.evaluate(self._held_out())
        except _Stopped:
            self._sink.log("info", f"the evaluation after optimizer step {step} is given up: the run is to stop")
            return
        seconds = time.perf_counter() - begin
        values = {"eval/loss": found.loss, "eval/perplexity": found.perplexity, "time/evaluation": seconds}
        self._sink.metrics(step, values)

    def _held_out(self) -> Iterator[Batch]:
        for batch in self._data.eval_batches(self._spec.training.global_batch_size):
            if self._should_stop():
                raise _Stopped
            yield batch

    def _sample(self, step: int, writer: Writer) -> None:
        asked = self._spec.samples
        sampling = Sampling(
            max_new_tokens=asked.max_new_tokens, temperature=asked.temperature, top_p=asked.top_p,
            stop_ids=writer.stop_ids, seed=self._spec.training.seed,
        )  # fmt: skip
        try:
            written = self._engine.generate(self._prompts, sampling, lambda _: not self._should_stop())
        except EngineError as error:
            self._writer = None  # a prompt too long, for example: no reason to end a run of hours
            self._sink.log("warning", f"no samples are written in this run: {error}")
            return
        for prompt, continuation in zip(asked.prompts, written, strict=True):
            self._sink.emit(
                SampleGenerated(
                    step=step, prompt=prompt, text=writer.text(continuation.tokens),
                    num_tokens=len(continuation.tokens), ending=continuation.ending.value,
                )
            )  # fmt: skip
