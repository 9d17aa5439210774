"""How a process that loads models is set up, before anything heavy is imported."""

import os

from horizon_app.worker.memory_allocator import keep_freed_memory

ENVIRONMENT = {
    # Compute threads that sleep while they wait. Spinning ones take the core that a browser, the server or another run
    # needs, and then wait for it themselves: with the cores shared, a step took ten times as long.
    "OMP_WAIT_POLICY": "PASSIVE",
    # In the OpenMP that torch brings, which asks this and not the policy: before they sleep they look this often (about
    # 0.1 to 0.3 ms) for something to do. From one small operator to the next they need not be woken then, which takes
    # 50 to 80 us on a virtual machine. With the cores shared it costs 2%.
    "GOMP_SPINCOUNT": "5000",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "warning",
}
"""A worker reads what is on this machine and nothing else, draws no progress bars into its log, and hardly spins."""


def prepare_process() -> None:
    """Set up a process that trains or computes: the environment and the allocator."""
    lay_environment()
    keep_freed_memory()


def lay_environment() -> None:
    """Set the variables, what the user has set left alone."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
