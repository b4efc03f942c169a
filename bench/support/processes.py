# SPDX-License-Identifier: MIT
"""What the system says of a process; None once it is gone."""
import os

HERTZ = os.sysconf("SC_CLK_TCK")


def cpu_of(pid):
    """Seconds of CPU time so far."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / HERTZ
    except OSError:
        return None


def peak_of(pid):
    """The most memory it ever had, in KiB."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return next((int(line.split()[1]) for line in f if line.startswith("VmHWM")), None)
    except OSError:
        return None
