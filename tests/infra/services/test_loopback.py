import socket
from contextlib import ExitStack

from hypothesis import given, settings
from hypothesis import strategies as st

from infra.services.loopback import choose_ports


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_the_first_choice_is_taken_while_it_is_free() -> None:
    first, second = free_port(), free_port()
    assert choose_ports({"s3": first}, {"s3": second}) == {"s3": first}
    assert choose_ports({}, {"s3": second}) == {"s3": second}


def test_a_port_that_somebody_listens_on_is_left_to_him() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken, spare = int(other.getsockname()[1]), free_port()
        assert choose_ports({"s3": taken}, {"s3": spare}) == {"s3": spare}
        chosen = choose_ports({"s3": taken})["s3"]
        assert chosen not in (0, taken)


def test_a_port_that_somebody_listens_on_at_every_address_is_left_to_him() -> None:
    with socket.create_server(("0.0.0.0", 0)) as other:
        taken = int(other.getsockname()[1])
        assert choose_ports({"s3": taken})["s3"] != taken


@settings(max_examples=20)
@given(st.integers(1, 12))
def test_names_that_want_one_port_get_different_ones(num_names: int) -> None:
    wanted = free_port()
    chosen = choose_ports({str(name): wanted for name in range(num_names)})
    assert len(set(chosen.values())) == num_names


def test_a_port_that_another_start_has_reserved_is_left_to_it() -> None:
    wanted = free_port()
    with ExitStack() as first:
        assert choose_ports({"s3": wanted}, reserved=first) == {"s3": wanted}
        with ExitStack() as second:
            assert choose_ports({"s3": wanted}, reserved=second)["s3"] != wanted
        assert choose_ports({"s3": wanted}) == {"s3": wanted}, "who does not reserve is not kept waiting"
    with ExitStack() as third:
        assert choose_ports({"s3": wanted}, reserved=third) == {"s3": wanted}
