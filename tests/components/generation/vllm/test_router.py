import asyncio
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ConfigurationError, EngineUnavailable
from components.generation.vllm.router import Job, Replicas, choose_replica
from components.generation.vllm.transport import ReplicaFailed

URLS = ("a", "b", "c")


def jobs_of(num_prompts: int, group_size: int) -> list[Job]:
    """Groups of equal keys; each body is its own."""
    return [
        Job(key=f"prompt {prompt}".encode(), body=f"{prompt}/{candidate}".encode(), path="/generate")
        for prompt in range(num_prompts)
        for candidate in range(group_size)
    ]


def all_up(urls: tuple[str, ...] = URLS, *, places: int = 4, slack: int = 16) -> Replicas:
    replicas = Replicas(urls, places=places, slack=slack)
    for url in urls:
        replicas.set_up(url)
    return replicas


class Fakes:
    """Replicas that answer a number of requests and then die, and count what they are asked."""

    def __init__(self, lives: dict[str, int], delays: dict[str, float] | None = None) -> None:
        self.lives = dict(lives)
        self.delays = delays or {}
        self.answered: list[tuple[str, bytes]] = []
        self.at_once: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()

    async def send(self, url: str, job: Job) -> bytes:
        self.at_once[url] += 1
        self.most_at_once[url] = max(self.most_at_once[url], self.at_once[url])
        await asyncio.sleep(self.delays.get(url, 0.0))
        self.at_once[url] -= 1
        if self.lives.get(url, 10**9) <= 0:
            raise ReplicaFailed(f"{url} is dead")
        self.lives[url] = self.lives.get(url, 10**9) - 1
        self.answered.append((url, job.body))
        return job.body


@given(
    lives=st.fixed_dictionaries({"a": st.just(10**6), "b": st.integers(0, 20), "c": st.integers(0, 20)}),
    num_prompts=st.integers(0, 8),
    group_size=st.integers(1, 6),
    places=st.integers(1, 5),
)
@settings(max_examples=40, deadline=None)
def test_every_job_is_answered_once_in_order_while_one_replica_lives(
    lives: dict[str, int], num_prompts: int, group_size: int, places: int
) -> None:
    jobs, fakes = jobs_of(num_prompts, group_size), Fakes(lives)
    answers = asyncio.run(all_up(places=places).dispatch(jobs, fakes.send))
    assert answers == [job.body for job in jobs]
    assert Counter(body for _, body in fakes.answered) == Counter(job.body for job in jobs), "a finished one was lost"
    assert all(number <= places for number in fakes.most_at_once.values())


@given(lives=st.fixed_dictionaries({url: st.integers(0, 3) for url in URLS}))
@settings(max_examples=20, deadline=None)
def test_when_none_is_left_it_says_why_each_is_gone(lives: dict[str, int]) -> None:
    fakes, replicas = Fakes(lives), all_up()
    with pytest.raises(EngineUnavailable) as raised:
        asyncio.run(replicas.dispatch(jobs_of(4, 4), fakes.send))
    assert all(f"{url} is dead" in str(raised.value) for url in URLS)
    assert replicas.up == ()
    assert len(fakes.answered) == sum(lives.values())


def test_a_group_stays_at_one_replica_and_groups_spread() -> None:
    fakes = Fakes({})
    asyncio.run(all_up(places=32, slack=1000).dispatch(jobs_of(60, 4), fakes.send))
    homes: dict[bytes, set[str]] = {}
    for url, body in fakes.answered:
        homes.setdefault(body.split(b"/")[0], set()).add(url)
    assert all(len(urls) == 1 for urls in homes.values())
    assert Counter(min(urls) for urls in homes.values()).keys() == set(URLS)


def test_a_slow_replica_gets_fewer_requests_and_holds_nothing_up() -> None:
    fakes = Fakes({}, {"a": 0.5})
    started = time.monotonic()
    asyncio.run(all_up(places=4, slack=2).dispatch(jobs_of(100, 2), fakes.send))
    count = Counter(url for url, _ in fakes.answered)
    assert count["a"] < count["b"] / 2
    assert time.monotonic() - started < 200 / 3 * 0.5 / 4, "as slow as with equal shares"


def test_a_death_moves_the_dead_ones_keys_alone() -> None:
    keys = [f"prompt {number}".encode() for number in range(200)]
    before = {key: choose_replica(dict.fromkeys(URLS, 0), key, places=4, slack=0) for key in keys}
    after = {key: choose_replica(dict.fromkeys("ab", 0), key, places=4, slack=0) for key in keys}
    assert {key for key in keys if before[key] != after[key]} == {key for key in keys if before[key] == "c"}


@given(
    outstanding=st.dictionaries(st.sampled_from("abcde"), st.integers(0, 9), min_size=1),
    key=st.binary(max_size=4),
    places=st.integers(1, 9),
    slack=st.integers(0, 9),
    near=st.sets(st.sampled_from("abcde")),
)
def test_the_choice_is_free_and_never_far_behind_the_idlest(
    outstanding: dict[str, int], key: bytes, places: int, slack: int, near: set[str]
) -> None:
    chosen = choose_replica(outstanding, key, places=places, slack=slack, near=near)
    here = [url for url in outstanding if url in near]
    if here and max(outstanding[url] for url in here) < min(places, min(outstanding.values()) + slack + 1):
        assert chosen in here
    if chosen is None:
        assert min(outstanding.values()) >= places
    else:
        assert outstanding[chosen] < places
        assert outstanding[chosen] <= min(outstanding.values()) + slack


def test_an_error_that_is_not_the_replicas_ends_the_rest() -> None:
    begun = []

    async def send(url: str, job: Job) -> bytes:
        begun.append(job.body)
        if job.body == b"0/3":
            raise ConfigurationError("too long")
        await asyncio.sleep(0.01)
        return job.body

    replicas = all_up(places=2)
    with pytest.raises(ConfigurationError, match="too long"):
        asyncio.run(replicas.dispatch(jobs_of(50, 4), send))
    assert len(begun) < 100
    assert replicas.up == URLS
    assert replicas.busy == ()


def test_what_a_given_up_replica_owes_is_asked_of_another_at_once_and_no_more() -> None:
    replicas, answered = all_up(slack=0), []

    async def send(url: str, job: Job) -> bytes:
        if url == "b":
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        answered.append(url)
        return job.body

    async def play() -> list[bytes]:
        playing = asyncio.create_task(replicas.dispatch(jobs, send))
        while replicas.busy != ("b",):
            await asyncio.sleep(0.01)
        replicas.give_up("b", "not healthy")
        return await playing

    jobs = jobs_of(10, 4)
    assert asyncio.run(play()) == [job.body for job in jobs]
    assert replicas.down == {"b": "not healthy"}
    assert len(answered) == len(jobs), "what the others had answered stays"
    assert replicas.busy == ()


def test_two_dispatches_at_once_share_the_places() -> None:
    fakes, replicas = Fakes({}, dict.fromkeys(URLS, 0.01)), all_up(places=3)

    async def play() -> list[list[bytes]]:
        return await asyncio.gather(*(replicas.dispatch(jobs_of(10, 3), fakes.send) for _ in range(2)))

    assert asyncio.run(play()) == [[job.body for job in jobs_of(10, 3)]] * 2
    assert max(fakes.most_at_once.values()) <= 3
