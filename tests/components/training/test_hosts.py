"""The hostfile: what is read, what is refused with file and line, and the commands that follow from it."""

import base64
import json
import shlex
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config import TrainingConfig
from components.errors import ConfigurationError
from components.training.hosts import Host, host_commands, hosts_of, is_this_host, read_hostfile

NOT_THIS_HOST = "192.0.2.1"
"""An address that is kept for documentation (RFC 5737), so no machine's."""


def _training(folder: Path, text: str, num_ranks: int) -> TrainingConfig:
    (folder / "hosts").write_text(text)
    return TrainingConfig(hostfile=str(folder / "hosts"), num_ranks=num_ranks)


def test_the_format_is_deepspeeds(tmp_path: Path) -> None:
    from deepspeed.launcher.runner import fetch_hostfile

    text = "# the cluster\n\nnode-1 slots=4\n  node-2.example.org\tslots=12  # the big one\n10.0.0.3  slots=1\n"
    (tmp_path / "hosts").write_text(text)
    hosts = read_hostfile(tmp_path / "hosts")
    assert hosts == (Host("node-1", 4), Host("node-2.example.org", 12), Host("10.0.0.3", 1))
    assert dict(fetch_hostfile(str(tmp_path / "hosts"))) == {host.name: host.num_slots for host in hosts}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("localhost slots=1\nnode", r"hosts', line 2: 'node' is not a host; write `NAME slots=N`"),
        ("node slot=1", r"hosts', line 1: 'node slot=1' is not a host"),
        ("node slots=two", r"hosts', line 1: 'node slots=two' is not a host"),
        ("node slots=0", r"hosts', line 1: 'node slots=0' is not a host"),
        ("node slots=2 max=4", r"hosts', line 1: .* is not a host"),
        ("-oProxyCommand=x slots=2", r"hosts', line 1: .* is not a host"),
        ("a slots=1\n\na slots=2", r"hosts', line 3: 'a' is repeated"),
        ("# nothing\n", r"hosts' names no host"),
    ],
)
def test_what_is_no_hostfile_is_refused_by_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        read_hostfile(tmp_path / "hosts")


def test_an_absent_hostfile_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"training\.hostfile '.*hosts' cannot be read"):
        read_hostfile(tmp_path / "hosts")


def test_without_a_hostfile_all_ranks_are_here() -> None:
    assert hosts_of(TrainingConfig(num_ranks=3)) == (Host("localhost", 3),)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", socket.gethostname()])
def test_a_hostfile_of_this_host_gives_its_slots(tmp_path: Path, name: str) -> None:
    assert hosts_of(_training(tmp_path, f"{name} slots=2\n", 2)) == (Host(name, 2),)


def test_slots_are_the_ranks(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"num_ranks 3: training\.hostfile '.*' has 2 slots .* set num_ranks to 2"
    ):
        hosts_of(_training(tmp_path, "localhost slots=2\n", 3))


def test_the_first_host_is_this_one_by_a_name_that_others_know(tmp_path: Path) -> None:
    assert not is_this_host(NOT_THIS_HOST)
    with pytest.raises(ConfigurationError, match=f"its first host '{NOT_THIS_HOST}' is not this one"):
        hosts_of(_training(tmp_path, f"{NOT_THIS_HOST} slots=1\n127.0.0.2 slots=1\n", 2))
    with pytest.raises(ConfigurationError, match="'localhost' has a name by which the others cannot reach it"):
        hosts_of(_training(tmp_path, f"localhost slots=1\n{NOT_THIS_HOST} slots=1\n", 2))


def test_several_hosts_need_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    training = _training(tmp_path, f"127.0.0.2 slots=1\n{NOT_THIS_HOST} slots=1\n", 2)
    with pytest.raises(ConfigurationError, match="apt-get install openssh-client"):
        hosts_of(training)


@given(
    slots=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    words=st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1), max_size=3),
)
def test_every_host_gets_its_number_the_whole_world_and_its_words_unchanged(slots: list[int], words: list[str]) -> None:
    hosts = [Host(f"h{number}", count) for number, count in enumerate(slots)]
    folder = Path("/the source")
    launcher = ["/usr/bin/env", "A=1 2", "python", *words]
    commands = host_commands(hosts, launcher=launcher, arguments=["--x"], folder=folder)
    assert len(commands) == len(hosts)
    for number, command in enumerate(commands):
        if number:
            assert command[0] == "ssh"
            assert command[-2] == f"h{number}"
            command = shlex.split(command[-1])
            assert command[:4] == ["cd", "/the source", "&&", "exec"]
            assert command.pop() == "--exit_with_stdin"
            command = command[4:]
        *start, world, place, last = command
        assert start == launcher
        decoded = json.loads(base64.urlsafe_b64decode(world.removeprefix("--world_info=")))
        assert decoded == {host.name: list(range(host.num_slots)) for host in hosts}
        assert (place, last) == (f"--node_rank={number}", "--x")
