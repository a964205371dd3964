"""Train a small network on the CPU, from samples and with checkpoints in Esker.

    python train.py esker://POOL/CONTAINER [EPOCHS]

The container holds files (`esker cont create POOL CONTAINER --type posix`). The first run fills it with
samples of ten patterns in noise. Each epoch ends with a checkpoint; a later run, or one after a crash,
goes on from the last. Needs PyTorch.
"""

import sys

import torch
import torch.distributed.checkpoint as dcp

import esker
import esker.torch

PIXELS, PATTERNS, SAMPLES = 16 * 16, 10, 1000


def fill(files):
    """Store samples as files: their label is in the name, their pixels are float32."""
    random = torch.Generator().manual_seed(1)
    patterns = torch.rand(PATTERNS, PIXELS, generator=random)
    for folder in ("/train", "/test"):
        files.mkdir(folder)
    for number in range(SAMPLES):
        label, folder = number % PATTERNS, "/train" if number < 800 else "/test"
        image = patterns[label] + 0.5 * torch.randn(PIXELS, generator=random)
        with files.open(f"{folder}/{number:04}-{label}", "wb") as file:
            file.write(image.numpy())


def decode(sample):
    """The pixels and the label of a sample, which is a path and its content."""
    path, content = sample
    return torch.frombuffer(content, dtype=torch.float32), int(path[-1])


def accuracy(model, loader):
    """The share of samples that a model labels right."""
    with torch.no_grad():
        right = [(model(images).argmax(1) == labels).float() for images, labels in loader]
    return torch.cat(right).mean().item()


def train(model, loader, optimizer):
    """Train for the rest of an epoch, and return the mean loss."""
    losses = []
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main(url, epochs=3):
    """Fill the container if it is empty, resume if there is a checkpoint, and train to the end."""
    files = esker.FileSystem(url.removeprefix("esker://").rstrip("/"))
    if not files.exists("/train"):
        fill(files)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(PIXELS, 64), torch.nn.ReLU(), torch.nn.Linear(64, PATTERNS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    samples = esker.torch.Dataset(f"{url}/train", decode, keyed=True)
    loader = esker.torch.DataLoader(samples, batch_size=32, shuffle=True, seed=1, num_workers=2)
    unseen = esker.torch.DataLoader(esker.torch.Dataset(f"{url}/test", decode, keyed=True), batch_size=100)
    print(f"{len(samples)} samples to train with")
    if files.exists("/checkpoint/.metadata"):
        state = {"model": model.state_dict(), "loader": loader.state_dict()}
        dcp.load(state, storage_reader=esker.torch.CheckpointReader(f"{url}/checkpoint"))
        loader.load_state_dict(state["loader"])
        print(f"resumed after epoch {loader.progress.epoch}")
    for epoch in range(loader.progress.epoch + 1, epochs + 1):
        loss = train(model, loader, optimizer)
        state = {"model": model.state_dict(), "loader": loader.state_dict()}
        dcp.save(state, storage_writer=esker.torch.CheckpointWriter(f"{url}/checkpoint"))
        print(f"epoch {epoch}: loss {loss:.3f}, {accuracy(model, unseen):.0%} of unseen samples right")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
