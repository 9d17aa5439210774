"""Numbers as a terminal shows them."""


def show_seconds(seconds: float) -> str:
    """A duration, for example 1:02:03 or 4.2 s."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def show_metric(value: float | None, form: str) -> str:
    """A metric in `form`, or a dash where there is none."""
    return "–" if value is None else format(value, form)
