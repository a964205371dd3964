"""The order in which samples are read."""

import pytest

from esker._order import Order


@pytest.mark.parametrize("count", [0, 1, 2, 3, 16, 17, 100, 1000])
def test_an_order_is_a_permutation(count):
    assert list(Order(count)) == list(range(count))
    shuffled = list(Order(count, shuffle=True, seed=3))
    assert sorted(shuffled) == list(range(count)) and shuffled == list(Order(count, shuffle=True, seed=3))
    if count >= 100:
        others = [Order(count, shuffle=True, seed=4), Order(count, shuffle=True, seed=3, epoch=1)]
        assert all(sum(a == b for a, b in zip(shuffled, other)) < count / 10 for other in others)


def test_ranks_share_an_order():
    shares = [list(Order(10, shuffle=True, rank=rank, ranks=4)) for rank in range(4)]
    assert {len(share) for share in shares} == {3}
    assert {number for share in shares for number in share} == set(range(10))
    with pytest.raises(ValueError, match="rank 4 of 4"):
        Order(10, rank=4, ranks=4)


def test_an_order_spreads_evenly():
    # In 2000 epochs, each number comes first about 200 times. The limit is far out in the chi-squared
    # distribution with 9 degrees of freedom.
    seen = [0] * 10
    for epoch in range(2000):
        seen[Order(10, shuffle=True, epoch=epoch)[0]] += 1
    assert sum((found - 200) ** 2 / 200 for found in seen) < 40
