"""All checks of the machine, in the order in which they are shown."""

from datetime import UTC, datetime

import horizon_app
from horizon_app.contracts.checks import MachineReport, worst
from horizon_app.control.doctor.limits import limit_checks
from horizon_app.control.doctor.memory import memory_checks
from horizon_app.control.doctor.processor import processor_checks
from horizon_app.control.doctor.serving import serving_checks
from horizon_app.control.doctor.software import software_checks
from horizon_app.control.doctor.storage import storage_checks
from horizon_app.settings import AppSettings


def examine(settings: AppSettings) -> MachineReport:
    """Look at this machine and the home folder; takes seconds, most of them for the disk."""
    checks = [
        *software_checks(), *processor_checks(), *memory_checks(), *limit_checks(), *storage_checks(settings),
        *serving_checks(settings),
    ]  # fmt: skip
    return MachineReport(
        version=horizon_app.__version__, home=str(settings.home), time=datetime.now(UTC), verdict=worst(checks),
        checks=checks,
    )  # fmt: skip
