"""docs/extensions.md says what the tests show, and names them."""

from importlib import import_module

from tests.gateway.extensions_document import FILE, ROWS, page


def test_the_page_has_the_matrix_of_the_tests() -> None:
    text = FILE.read_text("utf-8")
    assert text == page(text), "write it anew: python -m tests.gateway.extensions_document"


def test_every_line_of_the_matrix_names_a_test_that_is_there() -> None:
    for row in ROWS:
        module, _, name = row.test.partition(":")
        assert callable(getattr(import_module(module), name)), row.test
