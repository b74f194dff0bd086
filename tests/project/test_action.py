"""The action of continuous integration: its step is run as a runner does."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


@pytest.mark.processes
@pytest.mark.parametrize(
    ("shift", "undecided", "status", "exit_status"),
    [(0.3, "fail", 0, 0), (-0.3, "pass", 1, 1), (0.0, "pass", 3, 0), (0.0, "fail", 3, 3)],
)
def test_the_step_of_the_action(shift, undecided, status, exit_status, tmp_path):
    (tmp_path / "sampled-metrics").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m sampled_metrics "$@"\n'
    )
    (tmp_path / "sampled-metrics").chmod(0o755)
    for name, value in (("old", 0.5), ("new", 0.5 + shift)):
        values = {"query": range(60), "ndcg@10": [value - 0.1, value + 0.1] * 30}
        if not shift and name == "new":
            values["ndcg@10"] = values["ndcg@10"][::-1]
        pd.DataFrame(values).to_csv(tmp_path / f"{name}.csv", index=False)
    install, gate = ACTION["runs"]["steps"]
    assert "GITHUB_ACTION_PATH" in install["run"]
    inputs = {name: given.get("default", "") for name, given in ACTION["inputs"].items()}
    inputs |= {"old": "old.csv", "new": "new.csv", "metric": "ndcg@10", "undecided": undecided}
    asked = {f"${{{{ inputs.{name} }}}}": value for name, value in inputs.items()}
    settings = {name: asked[value] for name, value in gate["env"].items()}
    completed = subprocess.run(
        ["bash", "-c", gate["run"]],
        cwd=tmp_path,
        env=os.environ
        | settings
        | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(tmp_path / "output")},
        check=False,
    )
    assert completed.returncode == exit_status
    assert (tmp_path / "output").read_text() == f"status={status}\n"
    comment = (tmp_path / "gate.md").read_text(encoding="utf-8")
    assert "on NDCG@10" in comment
    assert comment.startswith("```text\n")
