"""Counters are exact under threads and bounded under attack."""

import threading
import uuid

import pytest

from cannery.errors import RoleError
from cannery.roles import RoleCounters, RoleMappings, normalize_role, normalize_roles
from cannery.roles.counters import MOST_KEYS


def reject(role, counters):
    with pytest.raises(RoleError):
        normalize_role(role, counters=counters)


def test_roles_are_counted_by_what_they_became():
    counters = RoleCounters()

    normalize_role("user", counters=counters)
    normalize_role(" HUMAN", counters=counters)
    normalize_roles(
        [{"role": "System"}, {"role": "human"}, {"role": "user"}, {"role": "Advisor"}],
        mappings=RoleMappings({"advisor": "assistant"}),
        counters=counters,
    )

    counts = counters.snapshot()
    assert counts.messages == 6
    assert counts.transformations == {
        ("human", "user"): 2,
        ("system", "system"): 1,
        ("advisor", "assistant"): 1,
    }
    assert counts.transformed == 4
    assert counts.rejections == {}


def test_refusals_are_counted_by_reason():
    counters = RoleCounters()

    roles: list[object] = ["admin", "Super User", "boss", "", 5, None, []]
    for role in roles:
        reject(role, counters)
    with pytest.raises(RoleError):
        normalize_roles([{"role": "System"}, {"content": "x"}], counters=counters)

    counts = counters.snapshot()
    assert counts.rejections == {"dangerous": 2, "unknown": 2, "not_text": 3, "missing": 1}
    assert counts.rejected == 8
    assert counts.messages == 0


def test_random_roles_do_not_grow_the_counters():
    counters = RoleCounters()

    for _ in range(2_000):
        reject(uuid.uuid4().hex, counters)

    assert counters.snapshot().rejections == {"unknown": 2_000}


def test_keys_are_bounded_whoever_counts():
    counters = RoleCounters()

    counters.accept(1_000, ((f"name{number}", "user") for number in range(1_000)))

    counts = counters.snapshot()
    assert len(counts.transformations) == MOST_KEYS + 1
    assert counts.transformations["other", "other"] == 1_000 - MOST_KEYS
    assert counts.transformed == 1_000


def test_threads_lose_no_count():
    counters = RoleCounters()
    barrier = threading.Barrier(8)

    def work():
        barrier.wait()
        for _ in range(500):
            normalize_roles([{"role": "User"}, {"role": "bot"}], counters=counters)
            reject("boss", counters)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    counts = counters.snapshot()
    assert counts.messages == 8_000
    assert counts.transformations == {("user", "user"): 4_000, ("bot", "assistant"): 4_000}
    assert counts.rejections == {"unknown": 4_000}


def test_snapshot_does_not_change():
    counters = RoleCounters()
    before = counters.snapshot()

    normalize_role("Bot", counters=counters)

    assert before.messages == 0
    assert before.transformations == {}
    with pytest.raises(TypeError):
        before.transformations["a", "b"] = 1  # type: ignore[index]
