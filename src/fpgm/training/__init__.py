"""The loop and what it keeps: checkpoints, schedules, telemetry."""
