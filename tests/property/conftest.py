"""Settings of the property tests: the same examples every time, and no deadline on a busy machine."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "horizon", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("horizon")
