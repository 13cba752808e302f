"""docs/extensions.md says what the tests show."""

from tests.gateway.extensions_document import FILE, ORDER, page, rows


def test_the_page_has_the_matrix_of_the_tests() -> None:
    text = FILE.read_text("utf-8")
    assert text == page(text), "write it anew: python -m tests.gateway.extensions_document"


def test_every_extension_is_shown_by_some_test() -> None:
    assert {row.extension for row in rows()} == set(ORDER)
