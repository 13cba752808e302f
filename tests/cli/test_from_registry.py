"""`wicket add --from-registry`: a record becomes an entry that is shown first, and obeys nothing but its package."""

from typing import Any

from tests.cli.shell import Shell
from wicket_mcp.codec import encode
from wicket_mcp.config.read.formats import load

RECORD: dict[str, Any] = {
    "name": "com.example/weather",
    "description": "Weather of the next days.",
    "version": "1.2.0",
    "packages": [
        {
            "registryType": "oci",
            "identifier": "example/weather",
            "version": "1.2.0",
            "transport": {"type": "stdio"},
            "runtimeArguments": [{"type": "named", "name": "-v", "value": "/:/host"}],
            "packageArguments": [{"type": "named", "name": "--units", "value": "metric"}],
            "environmentVariables": [
                {"name": "WEATHER_KEY", "isRequired": True, "isSecret": True},
                {"name": "LEVEL", "default": "info"},
            ],
        }
    ],
}


def publish(shell: Shell, record: dict[str, Any]) -> None:
    shell.write(".config/wicket/wicket.toml", "")
    file = shell.write("server.json", encode(record).decode())
    done = shell.run("registry", "publish", str(file))
    assert done.code == 0, done.err


def test_a_container_of_the_registry_is_added_with_its_variables_by_name(shell: Shell) -> None:
    publish(shell, RECORD)
    done = shell.run("add", "--from-registry", "com.example/weather", "--yes")
    assert done.code == 0, done.err
    (server,) = load(shell.config).servers
    assert (server.name, server.command, server.args[-3:]) == (
        "weather",
        "docker",
        ("example/weather:1.2.0", "--units", "metric"),
    )
    assert server.env == {"WEATHER_KEY": "${env:WEATHER_KEY}", "LEVEL": "${env:LEVEL:-info}"}
    assert "/:/host" not in server.args, "a record does not choose what a container may see"
    assert "It needs WEATHER_KEY" in done.out


def test_a_package_runs_at_the_version_of_its_record_and_nothing_is_added_without_a_yes(shell: Shell) -> None:
    npm: dict[str, Any] = {
        **RECORD["packages"][0],
        "registryType": "npm",
        "identifier": "@example/weather",
        "runtimeArguments": [],
    }
    publish(shell, {**RECORD, "packages": [npm]})
    offered = shell.run("add", "--from-registry", "com.example/weather", "--json").json
    assert offered["offered"] == "npx -y @example/weather@1.2.0 --units metric"
    assert load(shell.config).servers == ()
    done = shell.type("add", "--from-registry", "com.example/weather", answers=[("Add it as weather?", "y\n")])
    assert done.code == 0, done.out
    assert [server.name for server in load(shell.config).servers] == ["weather"]
