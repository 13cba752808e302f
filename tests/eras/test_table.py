"""The matrix is whole: every feature has its function, every note its cells, and the page shows just that."""

from tests.eras import cells_everything
from tests.eras.cells import CELLS
from tests.eras.document import FILE, page
from tests.eras.table import EVERYTHING, FEATURES, LINKS, NAMED


def test_every_feature_of_the_table_is_tried_and_nothing_else() -> None:
    assert cells_everything.__name__.endswith("everything")
    assert set(CELLS) == {feature.key for feature in (*FEATURES, *EVERYTHING)}


def test_the_matrix_has_every_combination() -> None:
    assert len(set(LINKS)) == len(LINKS) == 2**4


def test_every_named_cell_exists() -> None:
    keys = [feature.key for feature in (*FEATURES, *EVERYTHING)]
    assert [one for one in NAMED if not any(one.covers(key, link) for key in keys for link in LINKS)] == []


def test_the_page_is_made_from_the_table() -> None:
    assert FILE.read_text() == page(), "run python -m tests.eras.document"
