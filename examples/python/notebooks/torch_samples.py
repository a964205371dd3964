# %% [markdown]
# # Samples for PyTorch
#
# Needs torch and numpy. The pool is in the memory of this process, so the loader has no workers; `esker.Pool("tank")` has a pool
# that they share.

# %%
import numpy
import torch

import esker
import esker.torch

container = esker.Pool("memory:notebook").create_container("samples")
labels = container.kv("labels")
for number in range(100):
    labels[f"{number:03}"] = bytes([number])

# %% [markdown]
# Samples of a dataset are read in batches. The seed and the epoch determine their order, and the loader resumes.

# %%
samples = esker.torch.Dataset(labels, transform=lambda data: data[0])
loader = esker.torch.DataLoader(samples, batch_size=32, shuffle=True, seed=1)
epoch = [batch.tolist() for batch in loader]
print(len(samples), sorted(sum(epoch, [])) == list(range(100)))  # prints 100 True

# %% [markdown]
# Cells of an Array are tensors.

# %%
images = container.create_array("images", cell_size=16)
images.write(0, numpy.arange(40, dtype="f4"))
print(esker.torch.Dataset(images, dtype=torch.float32, shape=(2, 2))[1].tolist())  # prints [[4.0, 5.0], [6.0, 7.0]]
