"""The files of deploy/, held against what the program offers: no path, option, variable or metric that is not there."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import needs
from tests.conftest import ROOT
from wicket_mcp.config.model.config import Config
from wicket_mcp.telemetry.metrics import FAMILIES

OLDEST = "1.30"
"""The oldest Kubernetes whose definitions the resources are held against."""
METRICS = 9464
"""The port at which pods serve their metrics without a token."""
KUBERNETES = ROOT / "deploy" / "kubernetes"
KINDS = {
    "Deployment": "apps/v1",
    "Service": "v1",
    "PodDisruptionBudget": "policy/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "Kustomization": "kustomize.config.k8s.io/v1beta1",
}


def documents(path: Path) -> list[Any]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def resources() -> dict[str, list[Any]]:
    kustomization = documents(KUBERNETES / "kustomization.yaml")[0]
    found: dict[str, list[Any]] = {}
    for name in kustomization["resources"]:
        for document in documents(KUBERNETES / name):
            found.setdefault(document["kind"], []).append(document)
    return found


def variables(text: str) -> set[str]:
    """The variables of ours that a text names."""
    return set(re.findall(r"WICKET_[A-Z_]+", text))


def known_variables() -> set[str]:
    sources = (path.read_text() for path in (ROOT / "src").rglob("*.py"))
    return {name for source in sources for name in variables(source)} | {"WICKET_DB_PASSWORD"}


def test_the_configuration_is_one_that_wicket_takes() -> None:
    text = (ROOT / "deploy" / "wicket.toml").read_text()
    config = Config.from_dict(tomllib.loads(text))
    assert (config.http.host, config.http.port) == ("0.0.0.0", 8377)
    assert config.store is not None
    assert config.shared_limits is not None
    assert config.http.leave_after > 0
    assert (KUBERNETES / "wicket.toml").read_text() == text


def test_compose_runs_three_replicas_with_the_same_keys() -> None:
    services = documents(ROOT / "compose.yaml")[0]["services"]
    replicas = [service for name, service in services.items() if name.startswith("wicket-")]
    assert len(replicas) == 3
    assert {"postgres", "redis", "balancer"} <= services.keys()
    for replica in replicas:
        assert {"WICKET_VAULT_KEY", "WICKET_TOKEN"} <= replica["environment"].keys()
        assert replica["environment"].keys() <= known_variables()
    mounted = [volume.partition(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    assert all((ROOT / path).is_file() for path in mounted if path.startswith("./"))


def test_the_image_installs_what_there_is() -> None:
    text = (ROOT / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (wanted,) = re.findall(r"\.whl\)\[([a-z,]+)\]", text)
    assert {"postgres", "redis", "auth"} <= set(wanted.split(",")) <= extras.keys()
    assert "USER wicket" in text
    assert "/healthz" in text


def test_the_image_is_built_from_what_the_package_needs_and_from_nothing_else() -> None:
    """No `.env` with the replicas' keys, and no virtual environment, is copied."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert kept == {"pyproject.toml", "src", project["readme"], *project["license-files"]}


def test_every_resource_is_of_a_known_kind_and_named() -> None:
    found = resources()
    assert found.keys() == KINDS.keys() - {"Kustomization"}
    for kind, all_of_kind in found.items():
        for document in all_of_kind:
            assert document["apiVersion"] == KINDS[kind]
            assert document["metadata"]["name"].startswith("wicket")
    assert any(service["spec"].get("clusterIP") == "None" for service in found["Service"])


def built() -> list[Any]:
    """All resources with the labels that kustomize adds."""
    (label,) = documents(KUBERNETES / "kustomization.yaml")[0]["labels"]
    assert label["includeSelectors"]
    all_of_them = [document for documents in resources().values() for document in documents]
    for document in all_of_them:
        spec = document["spec"]
        if document["kind"] == "Deployment":
            spec["template"].setdefault("metadata", {})["labels"] = label["pairs"]
        if document["kind"] in ("Deployment", "PodDisruptionBudget"):
            spec.setdefault("selector", {})["matchLabels"] = label["pairs"]
        if document["kind"] == "Service":
            spec["selector"] = label["pairs"]
    return all_of_them


def test_every_resource_is_one_that_kubernetes_takes() -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="install requirements/dev.txt")
    checked = [document["kind"] for document in built() if validator.validate(document, OLDEST, strict=True)]
    assert len(checked) == len(built()) >= len(KINDS) - 1
    misspelt = next(document for document in built() if document["kind"] == "Deployment")
    misspelt["spec"]["replica"] = 3
    with pytest.raises(validator.ValidationError, match="replica"):
        validator.validate(misspelt, OLDEST, strict=True)


def test_the_deployment_asks_for_what_the_program_answers() -> None:
    (deployment,) = resources()["Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert [port["containerPort"] for port in container["ports"]] == [8377, METRICS]
    assert f"0.0.0.0:{METRICS}" == container["args"][container["args"].index("--metrics") + 1]
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"prometheus.io/scrape": "true", "prometheus.io/port": str(METRICS)}
    names = {entry["name"] for entry in container["env"]} - {"POD_IP"}
    assert {"WICKET_VAULT_KEY", "WICKET_TOKEN", "WICKET_REPLICA_URL"} <= names <= known_variables()
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    leave_after = Config.from_dict(tomllib.loads((ROOT / "deploy" / "wicket.toml").read_text())).http.leave_after
    assert pod["terminationGracePeriodSeconds"] >= 30 + leave_after


def test_replicas_scale_by_a_metric_that_is_served() -> None:
    (scaler,) = resources()["HorizontalPodAutoscaler"]
    (metric,) = scaler["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] in FAMILIES
    (budget,) = resources()["PodDisruptionBudget"]
    assert budget["spec"]["minAvailable"] < scaler["spec"]["minReplicas"]


def test_haproxy_takes_its_configuration(tmp_path: Path) -> None:
    program = shutil.which("haproxy") or shutil.which("haproxy", path=f"/usr/sbin{os.pathsep}/sbin")
    if program is None:
        pytest.skip(needs.HAPROXY)
    done = subprocess.run(
        [program, "-c", "-f", str(ROOT / "deploy" / "haproxy.cfg")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
