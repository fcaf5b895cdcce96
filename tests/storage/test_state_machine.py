"""Anything that a program may do with a store, in any order, beside a plain model of it."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from cannery.backends.directory import commits, journal
from tests.backends.simulated_disk import Disk, Operations
from tests.storage.scenarios import Model, Scenario, check, living, open_simulated


class StoreMachine(RuleBasedStateMachine):
    """Append, fork, edit, delete, gc, reopen, crash."""

    conversations = Bundle("conversations")

    def __init__(self):
        super().__init__()
        self.capacity, commits.CAPACITY = commits.CAPACITY, 20_000
        self.steps, journal._STEPS = journal._STEPS, (8 << 10, 8 << 10)
        self.disk = Disk()
        self.model = Model()
        self.open()

    def open(self):
        self.operations = Operations(self.disk)
        self.store = open_simulated(self.operations)
        self.scenario = Scenario(self.store, self.model)

    def teardown(self):
        self.store.close()
        commits.CAPACITY = self.capacity
        journal._STEPS = self.steps

    @initialize(target=conversations)
    def begin(self):
        return self.scenario.create()

    @rule(target=conversations)
    def create(self):
        return self.scenario.create()

    @rule(
        identifier=conversations,
        sizes=st.lists(st.sampled_from(["small", "large", "picture", "prompt"]), max_size=4),
    )
    def append(self, identifier, sizes):
        if sizes:
            self.scenario.append(identifier, *sizes)

    @rule(target=conversations, identifier=conversations)
    def file_some(self, identifier):
        return self.scenario.file(identifier, "small")

    @rule(target=conversations, identifier=conversations, where=st.floats(0, 1))
    def fork(self, identifier, where):
        return self.scenario.fork(
            identifier, round(where * len(self.model.conversations[identifier]))
        )

    @rule(identifier=consumes(conversations))
    def delete(self, identifier):
        self.scenario.delete(identifier)

    @rule()
    def collect(self):
        self.scenario.collect()

    @rule()
    def reopen(self):
        self.store.close()
        self.open()

    @rule()
    def die(self):
        self.operations.die()
        self.open()

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed):
        self.operations.die()
        self.disk = self.disk.power_loss(seed)
        self.open()

    @rule(identifier=conversations)
    def file(self, identifier):
        history = self.model.conversations[identifier]
        if history:
            filed = self.store.file(history)
            assert filed.added == 0
            held = self.model.conversations[filed.identifier]
            assert [one.text for one in held[: len(history)]] == [one.text for one in history]

    @invariant()
    def everything_is_there(self):
        check(self.store, self.model)
        assert {one.identifier for one in self.store.list()} == living(self.store)


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
