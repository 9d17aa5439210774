from horizon_app.worker.stop_request import StopRequest


def test_stop_request_at_first_is_not_requested() -> None:
    assert not StopRequest().requested


def test_stop_asked_twice_keeps_the_first_cause_and_saves_only_if_both_say_so() -> None:
    stop = StopRequest()
    stop.ask("asked to stop", save=False)
    stop.ask("stopped by SIGTERM", save=True)
    assert (stop.requested, stop.save, stop.cause) == (True, False, "asked to stop")
