"""Results of workers: any worker reads them, and so does a gateway of the same user beside them."""

from pathlib import Path

from tests.conftest import peer
from tests.gateway.serving import raw_client
from tests.workers.conftest import Start
from wicket_mcp.app import Gateway
from wicket_mcp.model import LOCAL


async def test_a_handle_of_one_worker_is_known_to_the_others_and_to_a_gateway_over_the_same_state(
    start: Start, tmp_path: Path
) -> None:
    servers = {"x": peer("Echo", placement="each")}
    async with start(servers, workers=2) as served:
        body = await served.call("x.big", rows=3000)
        handle = body["_meta"]["wicket/result"]["id"]
        read = {"name": "read_result", "arguments": {"id": handle, "path": "items[2999].name"}}
        for _ in range(8):  # connections, which the kernel gives to any worker
            async with raw_client(served.address) as client:
                _, answer = await client.modern("tools/call", read)
                assert "row 2999" in answer["result"]["content"][0]["text"]
    async with Gateway.open({"servers": {}, "state_dir": str(tmp_path / "state" / "wicket")}) as beside:
        assert (await beside.verbs.read(handle, LOCAL, path="items[2999].name")).text == "row 2999"
