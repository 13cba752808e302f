"""The REST API under generated requests: never a server error, always what its own description promises."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.registry.command import serving, wicket
from wicket_mcp.codec import decode

schemathesis: Any = import_module("schemathesis")
checks: Any = import_module("schemathesis.checks")

EXAMPLES = 40  # for each operation


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A gateway of its own as the installed command; its origin, and a key that may do everything here."""
    folder = tmp_path_factory.mktemp("served")
    rates = "[registry.rates]\ndiscovery = 0\nregistration = 0\n"
    (folder / "wicket.toml").write_text(f'state_dir = "state"\n{rates}')
    key = wicket(folder, "keys", "create", "fuzz", "-s", "discover", "-s", "register").strip()
    with serving(folder) as origin:
        yield origin, key


def operations(origin: str, key: str) -> dict[str, Any]:
    schema = schemathesis.openapi.from_url(f"{origin}/openapi.json", headers={"Authorization": f"Bearer {key}"})
    return {result.ok().label: result.ok() for result in schema.get_all_operations()}


OPERATIONS = [
    "GET /v0.1/servers",
    "GET /v0.1/servers/{serverName}/versions",
    "GET /v0.1/servers/{serverName}/versions/{version}",
    "DELETE /v0.1/servers/{serverName}/versions/{version}",
    "POST /v0.1/publish",
]


def test_every_operation_is_fuzzed(served: tuple[str, str]) -> None:
    assert set(operations(*served)) == set(OPERATIONS)


@pytest.mark.parametrize("label", OPERATIONS)
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_generated_requests_get_promised_answers(served: tuple[str, str], label: str, mode: str) -> None:
    origin, key = served
    operation = operations(origin, key)[label]
    strategy = operation.as_strategy(generation_mode=getattr(schemathesis.GenerationMode, mode))
    answered: set[int] = set()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(strategy)
    def ask(case: Any) -> None:
        response = case.call(headers={"Authorization": f"Bearer {key}"})
        answered.add(response.status_code)
        case.validate_response(response, checks=[checks.not_a_server_error, *PROMISES])

    ask()
    assert answered
    assert max(answered) < 500


PROMISES: list[Any] = [
    getattr(import_module("schemathesis.specs.openapi.checks"), name)
    for name in ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
]


def test_the_gateway_is_as_it_was_afterwards(served: tuple[str, str]) -> None:
    origin, key = served
    requests: Any = import_module("requests")
    answer = requests.get(
        f"{origin}/v0.1/servers?search=filesystem", headers={"Authorization": f"Bearer {key}"}, timeout=10
    )
    assert decode(answer.content)["servers"][0]["server"]["title"] == "Filesystem"


def test_the_state_folder_holds_no_key(served: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> None:
    _, key = served
    base: Path = tmp_path_factory.getbasetemp()
    files = [file for file in base.rglob("state/*") if file.is_file()]
    assert files
    assert not any(key.encode() in file.read_bytes() for file in files)
