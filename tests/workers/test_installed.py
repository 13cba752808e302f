"""A server that is installed or removed at one worker while it runs is installed or removed at all."""

from tests.cluster.test_installed import ALLOWED, install_and_remove
from tests.gateway.serving import Raw
from tests.workers.conftest import Start
from tests.workers.test_subscriptions import a_client_at_each


async def test_a_server_installed_at_one_worker_is_there_at_the_others(start: Start) -> None:
    async with start({}, workers=2, options=ALLOWED) as served, a_client_at_each(served) as clients:
        first, second = (Raw(client.session, served.address) for client in clients)
        await install_and_remove(first, second)
