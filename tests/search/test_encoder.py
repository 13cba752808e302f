"""The sentence encoder beside the table: what it understands, and how an index uses it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import OpenGateway, replay

from wicket_mcp import Gateway
from wicket_mcp.model import Listing, Tool
from wicket_mcp.search import SearchIndex, build_segment
from wicket_mcp.search import encoder as encoder_module
from wicket_mcp.search.encoder import PACKAGED, packaged_encoder, read_encoder
from wicket_mcp.search.numeric import np
from wicket_mcp.search.segment import NoModel, Segment
from wicket_mcp.search.transformer import in_blocks, multiply

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILE = Path(encoder_module.__file__).with_name("encoder.bin")
ABOUT = {
    "create_invoice": "Create an invoice for a client",
    "refund_payment": "Refund a payment to the buyer",
    "stop_container": "Stop a running container",
    "send_message": "Send a message to a channel",
    "delete_branch": "Delete a branch of the repository",
    "list_employees": "List the employees of the company",
    "get_forecast": "Get the weather forecast for a city",
    "schedule_meeting": "Schedule a meeting in the calendar",
    "restore_backup": "Restore a database from a backup",
}
OFFICE = Listing("office", tools=tuple(Tool("office", name, {"description": about}) for name, about in ABOUT.items()))


class Topics:
    """An encoder that knows two topics and nothing else."""

    width = 2
    checksum = 7

    def encode(self, texts: list[str]) -> "NDArray[np.float32]":
        found = [[float("feline" in text or "cat" in text), float("feline" not in text)] for text in texts]
        return np.array(found, np.float32)

    def encode_queries(self, texts: list[str]) -> "NDArray[np.float32]":
        return self.encode(texts)


def test_an_encoder_brings_tools_together_that_share_no_word_with_the_query() -> None:
    tools = (Tool("pets", "groom", {"description": "Brush a feline"}), Tool("pets", "ride", {"description": "Saddle"}))
    index = SearchIndex.build([Listing("pets", tools=tools)], model=Topics())
    assert index.search("cat").hits[0].tool.name == "groom"


def test_segments_with_another_models_vectors_are_rebuilt_and_wait_for_the_new_one() -> None:
    listing = Listing("pets", tools=(Tool("pets", "groom", {"description": "Brush a feline"}),))
    theirs = build_segment(listing)
    index = SearchIndex.load({"pets": (listing, theirs)}, model=Topics())
    assert index.search("brush").hits
    assert index.unlearned_listings() == [listing]
    learned = index.with_segments({"pets": (listing, index.learn(listing))})
    assert learned.unlearned_listings() == []
    assert learned.segment("pets") == build_segment(listing, Topics())
    assert learned.segment("pets") != theirs


def test_stored_vectors_are_not_made_again() -> None:
    class Refusing(Topics):
        def encode(self, texts: list[str]) -> "NDArray[np.float32]":
            raise AssertionError(f"encoded {texts}")

    listing = Listing("pets", tools=(Tool("pets", "groom", {"description": "Brush a feline"}),))
    index = SearchIndex.load({"pets": (listing, build_segment(listing, Topics()))}, model=Refusing())
    index.warm()
    assert index.unlearned_listings() == []


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("bill acme for the work of june", "create_invoice"),
        ("take the old line of work off the server", "delete_branch"),
    ],
)
def test_the_packaged_encoder_understands_what_words_and_the_table_do_not(query: str, tool: str) -> None:
    assert best_by_score(SearchIndex.build([OFFICE], model=NoModel()), query) != tool
    assert best_by_score(SearchIndex.build([OFFICE]), query) == tool


def best_by_score(index: SearchIndex, query: str) -> str:
    """Before the judge reads tools."""
    return max(OFFICE.tools, key=lambda tool: index.explain(query, tool).score).name


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("Wird es morgen regnen?", "get_forecast"),
        ("qui travaille ici ?", "list_employees"),
        ("devuélvele el dinero", "refund_payment"),
        ("把丢失的数据恢复", "restore_backup"),
        ("金曜日に打ち合わせを入れて", "schedule_meeting"),
    ],
)
def test_the_packaged_encoder_reads_other_languages(query: str, tool: str) -> None:
    texts = [f"office: {name.replace('_', ' ')}. {about}" for name, about in ABOUT.items()]
    cosines = PACKAGED.encode(texts) @ PACKAGED.encode_queries([query])[0]
    assert list(ABOUT)[int(cosines.argmax())] == tool


def test_a_tool_without_a_vector_yet_is_found_by_words_beside_one_that_has_its() -> None:
    mail = Listing("mail", tools=(Tool("mail", "send_mail", {"description": "Send a letter to somebody"}),))
    index = SearchIndex.build([OFFICE]).with_listing(mail, learned=False)
    assert index.unlearned_listings() == [mail]
    assert index.search("send a letter").hits[0].tool.name == "send_mail"
    assert index.search("bill acme for the work of june").hits[0].tool.name == "create_invoice"


def test_a_text_has_the_same_vector_alone_and_among_others() -> None:
    texts = [*ABOUT.values(), "", "  …", "word " * 500]
    together = PACKAGED.encode(texts)
    alone = np.concatenate([PACKAGED.encode([text]) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert together.shape == (len(texts), PACKAGED.width)
    assert np.array_equal(together, read_encoder(FILE).encode(texts))


def test_queries_go_through_fewer_layers_than_tools_and_lie_where_tools_of_their_meaning_do() -> None:
    texts = list(ABOUT.values())
    queries, tools = PACKAGED.encode_queries(texts), PACKAGED.encode(texts)
    assert not np.allclose(queries, tools, atol=1e-2)
    assert np.allclose(np.linalg.norm(queries, axis=1), 1, atol=1e-5)
    assert (queries @ tools.T).argmax(1).tolist() == list(range(len(texts)))


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    data = bytearray(FILE.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "encoder.bin").write_bytes(data)
    with pytest.raises(ValueError, match="install wicket-mcp again"):
        read_encoder(tmp_path / "encoder.bin")


def test_words_become_pieces() -> None:
    tokenizer = packaged_encoder().tokenizer
    delete, file = tokenizer.encode("delete file", 8)
    assert tokenizer.encode("deleteFile", 8) == tokenizer.encode("DELETE_FILE", 8) == [delete, file]
    assert tokenizer.encode("Événement", 8) == tokenizer.encode("evenement", 8)
    assert len(tokenizer.encode("deletefilenow", 8)) > 1  # unknown words are cut
    assert len(tokenizer.encode("ファイルを削除", 8)) == 3
    assert tokenizer.encode("が", 8) != tokenizer.encode("か", 8)  # another syllable, not an accent
    assert len(tokenizer.encode("delete " * 99, 8)) == 8
    assert tokenizer.encode("", 8) == tokenizer.encode("!?", 8) == [0]


async def test_many_new_tools_are_encoded_in_the_background_and_stored(open_gateway: OpenGateway) -> None:
    servers = {"git-cyanheads": replay("git-cyanheads"), "notion": replay("notion"), "slack": replay("slack")}
    async with open_gateway(servers) as gateway:
        assert (await gateway.verbs.search("list channels")).hits  # does not wait for the encoder
        await gateway.finder.finish_indexing()
        assert is_learned(gateway) == dict.fromkeys(servers, True)
    async with open_gateway(servers) as gateway:  # another process over the same state
        await gateway.catalogue.load()
        assert is_learned(gateway) == dict.fromkeys(servers, True)


def is_learned(gateway: Gateway) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for name, listing in gateway.catalogue.now.listings.items():
        segment = Segment.read(gateway.catalogue.storage.segment(listing), len(listing.tools))
        found[name] = segment is not None and segment.is_learned
    return found


@pytest.mark.parametrize("rows", [1, 9, 32, 33])
def test_a_query_is_multiplied_in_blocks_with_the_same_result(rows: int) -> None:
    chance = np.random.default_rng(rows)
    left, right = (chance.standard_normal(shape).astype(np.float32) for shape in ((rows, 256), (256, 768)))
    assert np.allclose(multiply(left, in_blocks(right)), left @ right, atol=1e-3)
