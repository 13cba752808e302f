"""A model of the user's own: `search.model`."""

import json
from pathlib import Path

import pytest
from tests.conftest import OpenGateway, replay
from tests.search.tiny_model import write_model

from wicket_mcp.config.model.config import Config
from wicket_mcp.errors import ConfigError
from wicket_mcp.model import Listing, Tool
from wicket_mcp.search import SearchIndex
from wicket_mcp.search.user_model import UserModel, find_model

VECTORS = {"[UNK]": [0.01, 0.0, 0.01], "wobble": [0.0, 9.0, 0.0], "unstages": [0.0, 9.0, 0.0], "diff": [9.0, 0.0, 0.0]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "models" / "tiny", VECTORS)


def test_the_mean_of_the_tokens_is_the_vector_and_has_length_one(folder: Path) -> None:
    model = UserModel(folder)
    first, second, both = model.encode(["wobble", "diff", "wobble diff"])
    assert model.width == 3
    assert first @ second == pytest.approx(0.0, abs=1e-6)
    assert both @ first == pytest.approx(0.5**0.5, abs=1e-6)
    assert model.encode(["Unstages"] * 20)[19] @ first == pytest.approx(1.0, abs=1e-6)


def test_a_model_that_takes_the_first_token_is_read_so(tmp_path: Path) -> None:
    model = UserModel(write_model(tmp_path / "first", VECTORS, first_token=True))
    whole, first = model.encode(["wobble diff", "wobble"])
    assert whole @ first == pytest.approx(1.0, abs=1e-6)


def test_a_long_text_is_cut_where_the_model_says(folder: Path) -> None:
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 2}))
    cut, first = UserModel(folder).encode(["wobble wobble diff diff", "wobble"])
    assert cut @ first == pytest.approx(1.0, abs=1e-6)


def test_segments_of_another_model_are_made_anew(folder: Path, tmp_path: Path) -> None:
    other = UserModel(write_model(tmp_path / "other", VECTORS))
    listing = Listing("git", tools=(Tool("git", "save", {"description": "unstages"}),))
    mine = SearchIndex.build([listing], model=UserModel(folder)).segment("git")
    theirs = SearchIndex.load({"git": (listing, mine)}, model=other)
    theirs.warm()
    assert theirs.segment("git") != mine


async def test_a_configured_model_decides_what_is_found(open_gateway: OpenGateway, folder: Path) -> None:
    servers = {"git": replay("git"), "time": replay("time")}
    async with open_gateway(servers) as gateway:
        before = [hit.tool.key for hit in (await gateway.verbs.search("wobble")).hits]
    async with open_gateway(servers, search={"model": str(folder)}) as gateway:
        after = [hit.tool.key for hit in (await gateway.verbs.search("wobble")).hits]
        assert after[0] == "git.git_reset"
        gateway.apply(Config.from_dict({"servers": servers, "state_dir": gateway.config.state_dir}))
        again = [hit.tool.key for hit in (await gateway.verbs.search("wobble")).hits]
    assert before == again
    assert before[:1] != after[:1]


def test_a_name_is_found_where_hugging_face_keeps_what_it_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    made = write_model(tmp_path / "hub" / "models--org--tiny" / "snapshots" / "abc", VECTORS)
    assert find_model("org/tiny", tmp_path / "elsewhere") == made


def test_a_path_is_relative_to_the_configuration(folder: Path) -> None:
    assert find_model("tiny", folder.parent) == folder


async def test_what_is_no_model_is_named_when_a_gateway_starts(open_gateway: OpenGateway, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no model"):
        async with open_gateway({}, search={"model": "no/such"}):
            pass
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="not a sentence-transformers model") as caught:
        async with open_gateway({}, search={"model": str(tmp_path / "empty")}):
            pass
    assert "tokenizer.json" in str(caught.value.hint)


async def test_a_damaged_model_is_named_when_it_is_used(open_gateway: OpenGateway, folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"not a model")
    async with open_gateway({"time": replay("time")}, search={"model": str(folder)}) as gateway:
        with pytest.raises(ConfigError, match="cannot be used"):
            await gateway.search("anything")
