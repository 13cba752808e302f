"""A person's browser in tests: follows redirects, keeps cookies, and clicks on what a page offers. Also a command."""

import asyncio
import re
import sys
from urllib.parse import urljoin

import aiohttp

_LINK = re.compile(r'href="([^"]+)"')


def jar() -> aiohttp.CookieJar:
    """A browser's cookies; like browsers, it keeps them also for hosts without a name."""
    return aiohttp.CookieJar(unsafe=True)


async def browse(url: str) -> tuple[int, str]:
    """Open an address; the status and text of the last page."""
    async with aiohttp.ClientSession(cookie_jar=jar()) as session:
        while True:
            async with session.get(url) as answer:
                text = await answer.text()
                link = _LINK.search(text)
                if link is None:
                    return answer.status, text
                url = urljoin(str(answer.url), link[1])


if __name__ == "__main__":
    asyncio.run(browse(sys.argv[1]))
