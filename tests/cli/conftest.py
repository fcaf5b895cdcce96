"""A command, a store with something in it, and bodies to translate."""

import json
import shutil

import pytest

import cannery
from cannery.storage import open_store
from tests.cli.running import Cannery

PNG = b"\x89PNG\r\n\x1a\n" + bytes(2000)


@pytest.fixture(scope="session")
def bytecode(tmp_path_factory):
    return tmp_path_factory.mktemp("bytecode")


@pytest.fixture
def run(tmp_path, bytecode):
    """The command with a home of its own."""
    return Cannery(tmp_path, bytecode)


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A store with a conversation, its fork, and another one; give copies of it away."""
    place = tmp_path_factory.mktemp("filled") / "store"
    with open_store(place) as store:
        bread = store.create(title="Bread", tags=("food",), model="gpt-5")
        bread.append(
            cannery.supervisor("Be brief."),
            cannery.user("How do I make a *sourdough* starter?"),
            cannery.assistant("**Mix** flour and water."),
            cannery.invocation("call_1", "oven", {"temperature": 230}),
            cannery.result("call_1", "hot"),
            cannery.user(cannery.ImageContentClass(PNG, "image/png")),
            cannery.assistant("Evil \x1b[31m<script>alert(1)</script>"),
        )
        fork = bread.fork(at=3)
        fork.append(cannery.assistant("Another way"))
        other = store.create()
        other.append(cannery.user("No title here"), cannery.assistant("Right"))
        names = {
            "bread": bread.identifier,
            "fork": fork.identifier,
            "other": other.identifier,
        }
    return place, names


@pytest.fixture
def store(filled, tmp_path):
    """A copy of the filled store that a test may change."""
    place = tmp_path / "store"
    shutil.copytree(filled[0], place)
    return place


@pytest.fixture(scope="session")
def names(filled):
    """The ids in the filled store."""
    return filled[1]


@pytest.fixture
def chat(tmp_path):
    """A request of openai_chat with something that others cannot say."""
    body = {
        "model": "gpt-5",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
        ],
        "logit_bias": {"1": 2},
    }
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(body, indent=1))
    return path
