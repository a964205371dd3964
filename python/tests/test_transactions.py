"""Transactions: atomicity and conflicts."""

import threading

import pytest

import esker


def test_all_or_nothing(container):
    kv, cells = container.kv("index"), container.create_array("cells")
    with container.transaction() as tx:
        kv.at(tx)["a"] = b"1"
        cells.at(tx).write(0, b"abc")
        assert "a" not in kv and tx.epoch is None
    assert kv["a"] == b"1" and cells.read(0, 3) == b"abc" and tx.epoch
    with pytest.raises(ZeroDivisionError), container.transaction() as tx:
        kv.at(tx)["a"] = b"2"
        1 / 0  # noqa: B018
    assert kv["a"] == b"1"
    with pytest.raises(PermissionError, match="has ended"):
        kv.at(tx)["a"] = b"2"


def test_a_transaction_can_be_ended_early(container):
    kv = container.kv("index")
    with container.transaction() as tx:
        kv.at(tx)["a"] = b"1"
        tx.abort()
    assert "a" not in kv
    with container.transaction() as tx:
        kv.at(tx)["a"] = b"1"
        tx.commit()
    assert kv["a"] == b"1"


def test_a_conflict_has_its_own_exception(container):
    kv = container.kv("index")
    kv["a"] = b"1"
    with pytest.raises(esker.TxRestart), container.transaction() as tx:
        mine = kv.at(tx)
        value = mine["a"]
        kv["a"] = b"2"
        mine["b"] = value
    assert "b" not in kv


def test_conditions_are_checked_at_the_commit(container):
    kv = container.kv("index")
    kv["a"] = b"1"
    with pytest.raises(esker.Exists), container.transaction() as tx:
        kv.at(tx).put("a", b"2", "insert")


def test_a_read_only_transaction_verifies_its_reads(container):
    kv = container.kv("index")
    with container.transaction(read_only=True) as tx:
        assert "a" not in kv.at(tx)
        with pytest.raises(PermissionError):
            kv.at(tx)["a"] = b"1"


def test_no_increments_are_lost(container):
    kv = container.kv("index")
    kv["n"] = b"0"

    def increment(tx):
        mine = kv.at(tx)
        number = int(mine["n"]) + 1
        mine["n"] = str(number).encode()
        return number

    def work():
        for _ in range(50):
            container.transact(increment, attempts=10_000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kv["n"] == b"200"


def test_transact_limits_attempts_and_passes_on_exceptions(container):
    kv = container.kv("index")
    kv["a"] = b"1"
    calls = []

    def always_in_conflict(tx):
        calls.append(kv.at(tx)["a"])
        # Another value each time: some backends compare what was read by its value.
        kv["a"] = b"%d" % (len(calls) + 1)
        kv.at(tx)["b"] = b"1"

    with pytest.raises(esker.TxRestart, match="3 times"):
        container.transact(always_in_conflict, attempts=3)
    assert len(calls) == 3
    with pytest.raises(ZeroDivisionError):
        container.transact(lambda tx: 1 / 0)
    assert container.transact(lambda tx: "answer") == "answer"
