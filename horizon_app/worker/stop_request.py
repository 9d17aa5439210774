"""Whether the run is asked to stop, by whom, and whether the model is saved then."""


class StopRequest:
    """Collects requests to stop; the training thread looks at it between optimizer steps.

    Plain attributes and no lock, so that a signal handler may call `ask` at any moment.
    """

    def __init__(self) -> None:
        self.requested = False
        self.save = True
        self.cause = ""

    def ask(self, cause: str, *, save: bool) -> None:
        """Request the stop; the first cause is kept, and one request without saving is enough not to save."""
        self.cause = self.cause or cause
        self.save = self.save and save
        self.requested = True
