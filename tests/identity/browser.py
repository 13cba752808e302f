"""A person's browser in tests: follows redirects, keeps cookies, and clicks on what a page offers."""

import re
from urllib.parse import urljoin

import aiohttp

_LINK = re.compile(r'href="([^"]+)"')


async def browse(url: str) -> tuple[int, str]:
    """Open an address; the status and text of the last page."""
    jar = aiohttp.CookieJar(unsafe=True)  # like browsers, also for hosts without a name
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        while True:
            async with session.get(url) as answer:
                text = await answer.text()
                link = _LINK.search(text)
                if link is None:
                    return answer.status, text
                url = urljoin(str(answer.url), link[1])
