"""What is read off a service that runs: its memory, its metrics."""

from pathlib import Path
from urllib.request import urlopen


def resident_mib(pid: int) -> float:
    """Return the memory in use by a process, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the process is gone")


def metric(operator: str, name: str, labels: str = "") -> float:
    """Return the sum of a metric's samples whose labels hold ``labels``, as the operator's listener shows them."""
    with urlopen(f"{operator}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    samples = [line for line in lines if line.startswith((f"{name} ", f"{name}{{")) and labels in line]
    return sum(float(line.rpartition(" ")[2]) for line in samples)
