"""A person's browser in tests: follows redirects, keeps cookies, and presses the button of a page. Also a command."""

import asyncio
import re
import sys
from urllib.parse import urljoin

import aiohttp

_FORM = re.compile(r'<form method="post" action="([^"]+)"><input type="hidden" name="(\w+)" value="([^"]+)">')


def jar() -> aiohttp.CookieJar:
    """A browser's cookies; like browsers, it keeps them also for hosts without a name."""
    return aiohttp.CookieJar(unsafe=True)


async def browse(url: str) -> tuple[int, str]:
    """Open an address; the status and text of the last page."""
    async with aiohttp.ClientSession(cookie_jar=jar()) as session:
        async with session.get(url) as answer:
            status, text = answer.status, await answer.text()
            origin = str(answer.url.origin())
        while (form := _FORM.search(text)) is not None:
            headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
            target = urljoin(url, form[1])
            async with session.post(target, data={form[2]: form[3]}, headers=headers) as answer:
                status, text = answer.status, await answer.text()
        return status, text


if __name__ == "__main__":
    asyncio.run(browse(sys.argv[1]))
