"""The browser that `wicket login` opens in the suite's `auth/*` scenarios: `python -m tests.conformance.browser URL`.

Follows the authorization server's redirects, with cookies; the pages ask nothing. The standard library alone: it is
started for every sign-in.
"""

import sys
import urllib.request
from http.cookiejar import CookieJar

if __name__ == "__main__":
    urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar())).open(sys.argv[-1]).read()
