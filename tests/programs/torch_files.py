"""torch: save and load with its own file code, mapped loads, data loaders with processes."""
import errno
import os
import pathlib

import lib

torch = lib.need("torch")
STATE = {"weight": torch.arange(100_000, dtype=torch.float32).reshape(100, 1000), "step": 7, "name": "model"}


def same(one, other):
    assert torch.equal(one["weight"], other["weight"])
    assert (one["step"], one["name"]) == (other["step"], other["name"])


def test_save_and_load(outside):
    torch.save(STATE, "zip.pt")
    same(torch.load("zip.pt"), STATE)
    torch.save(STATE, "old.pt", _use_new_zipfile_serialization=False)
    same(torch.load("old.pt"), STATE)
    with open("file.pt", "wb") as file:
        torch.save(STATE, file)
    with open("file.pt", "rb") as file:
        same(torch.load(file), STATE)
    torch.save(STATE, outside / "zip.pt")
    assert os.path.getsize(outside / "zip.pt") == os.path.getsize("zip.pt")
    torch.save(STATE, "zip.pt")
    same(torch.load("zip.pt"), STATE)


def test_mapped_load(_):
    torch.save(STATE, "zip.pt")
    try:
        state = torch.load("zip.pt", mmap=True)
    except TypeError:
        print("this version does not support mapped loads")
        return
    same(state, STATE)
    state["weight"][0, 0] = -1
    same(torch.load("zip.pt"), STATE)


def test_from_file(_):
    STATE["weight"].numpy().tofile("raw")
    private = torch.from_file("raw", shared=False, size=100_000)
    assert torch.equal(private.reshape(100, 1000), STATE["weight"])
    private[3] = -3
    try:
        shared = torch.from_file("raw", shared=True, size=100_000)
    except (RuntimeError, OSError) as error:
        assert any(str(code) in str(error) for code in (errno.ENODEV, errno.ENOTSUP)), error
        return
    assert shared[3] == 3
    shared[5] = -5
    del shared
    again = torch.from_file("raw", shared=False, size=100_000)
    assert again[5] == -5 and again[3] == 3


class Samples(torch.utils.data.Dataset):
    """One file per sample."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.load(f"sample{index}.pt")


def test_data_loader(_):
    for index in range(40):
        torch.save(torch.full((50,), index), f"sample{index}.pt")
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(Samples(), batch_size=8, num_workers=workers)
        batches = list(loader)
        assert torch.cat(batches).sum().item() == 50 * sum(range(40)) and len(batches) == 5


def test_a_model(_):
    model = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1))
    optimiser = torch.optim.Adam(model.parameters())
    for step in range(3):
        optimiser.zero_grad()
        model(torch.ones(4, 10)).sum().backward()
        optimiser.step()
        torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, "part")
        os.replace("part", f"step{step}.pt")
    fresh = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1))
    fresh.load_state_dict(torch.load("step2.pt")["model"])
    assert torch.equal(fresh(torch.ones(1, 10)), model(torch.ones(1, 10)))
    traced = torch.jit.trace(model, torch.ones(1, 10))
    traced.save("traced.pt")
    assert torch.equal(torch.jit.load("traced.pt")(torch.ones(1, 10)), model(torch.ones(1, 10)))
    assert sorted(p.name for p in pathlib.Path(".").iterdir()) == ["step0.pt", "step1.pt", "step2.pt", "traced.pt"]


if __name__ == "__main__":
    lib.run_tests(globals())
