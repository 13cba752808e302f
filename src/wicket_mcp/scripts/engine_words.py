"""The Python engine's messages in words for a script's author: what is not supported, and what to write instead.

Pure functions over texts. The driver calls them; the names of the engine and of the prelude stay out of messages.
"""

import re

from wicket_mcp.scripts.modules import section

_UNSUPPORTED = re.compile(r"^\w+: The monty syntax parser does not yet support (.*)$", re.DOTALL)
_INSTEAD = (
    ("inheritance", 'Write one class, or functions. For an error of your own, raise ValueError("…").'),
    ("method decorators", "Write an ordinary method, or a function outside the class."),
)
_OUR_MODULE = re.compile(r"^\w+: '_wicket_(\w+)_module' object has no attribute '(\w+)'")
_MEMBER = re.compile(r"^    (?:async )?def ([a-zA-Z]\w*)\(", re.MULTILINE)
_ENDLESS = "a generator runs to its end here"


def in_plain_words(message: str) -> tuple[str, str]:
    """The message, and a hint if it has one."""
    if match := _UNSUPPORTED.match(message):
        hint = next((hint for word, hint in _INSTEAD if word in match[1]), "Write it another way.")
        return f"Python scripts here do not support {match[1]}", hint
    if match := _OUR_MODULE.match(message):
        code = section(match[1]).partition(f"class _wicket_{match[1]}_module:")[2]
        return f"The module '{match[1]}' has no '{match[2]}' in scripts.", f"It has {', '.join(_MEMBER.findall(code))}."
    if _ENDLESS in message:
        return (
            "A generator runs to its end before its first value is used, and this one does not end.",
            "Give its loop an end, or write the loop without a generator.",
        )
    return message, ""
