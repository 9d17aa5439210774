"""Writes checkpoints on a thread beside the training, and tells what became of them."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from horizon_app.contracts.checkpoints import CheckpointManifest
from horizon_app.contracts.events import CheckpointWritten
from horizon_app.worker.checkpoints import CheckpointFolder, Facts, Snapshot
from horizon_app.worker.event_sink import EventSink

_MOST_NAMED = 3


class CheckpointSaver:
    """One checkpoint at a time. What goes wrong on the thread is raised where the training next asks."""

    def __init__(self, folder: CheckpointFolder, sink: EventSink, saved_step: int) -> None:
        """`saved_step`: the step that is on disk already; 0: none."""
        self._folder, self._sink = folder, sink
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._saving: Future[None] | None = None
        self.begun_step = saved_step
        """The step that was saved, or is being saved, last."""
        self.saved_step = saved_step

    def begin(self, facts: Facts, take: Callable[[], Snapshot]) -> None:
        """Write what `take` gives. The save before must have finished."""
        snapshot = take()
        self._saving = self._thread.submit(self._write, facts, snapshot)
        self.begun_step = facts.step
        snapshot.wait()

    def raise_failure(self) -> None:
        """Raise what the last save failed with, if it has already."""
        if self._saving is not None and self._saving.done():
            self._saving.result()

    def finish(self) -> None:
        """Return once nothing is being written. Raises what the last save failed with."""
        if self._saving is not None:
            self._saving.result()

    def forget_failure(self) -> None:
        """The last save failed and is known: the step may be saved again. Nothing must be being written."""
        self._saving, self.begun_step = None, self.saved_step

    def settle(self) -> None:
        """Return once nothing is being written, however that ended. Nothing may begin after."""
        self._thread.shutdown()

    def _write(self, facts: Facts, snapshot: Snapshot) -> None:
        try:
            path, manifest = self._folder.write(facts, snapshot)
        finally:
            snapshot.release()
        self.saved_step = facts.step
        self._sink.emit(CheckpointWritten(step=facts.step, path=path, bytes=manifest.num_bytes))
        self._tell_nonfinite(manifest)
        for old in self._folder.rotate():
            self._sink.note("checkpoint_removed", f"checkpoint of step {old} removed to keep the newest", {"step": old})

    def _tell_nonfinite(self, manifest: CheckpointManifest) -> None:
        if not manifest.nonfinite:
            return
        names = [f"{count} in {name}" for name, count in manifest.nonfinite.items()]
        more = f" and {len(names) - _MOST_NAMED} others" if len(names) > _MOST_NAMED else ""
        self._sink.log(
            "warning",
            f"the checkpoint of step {manifest.step} holds values that are not finite: "
            f"{', '.join(names[:_MOST_NAMED])}{more}; it pushes out none that holds fewer",
        )
