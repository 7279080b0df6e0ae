"""The training loop with its checkpoints, schedules, devices and telemetry."""
