# %% [markdown]
# # Tensors: immutable arrays by name
#
# Needs numpy. The pool is in the memory of this process; `esker.TensorStore("tank/tensors")` uses one that stays.

# %%
import numpy

import esker

store = esker.TensorStore("memory:notebook/tensors")
values = numpy.arange(24, dtype="f4").reshape(4, 6)
store.put(values, "t2m", {"units": "K"}, chunks=(2, 6))
print(store.keys())  # prints ['t2m']

# %% [markdown]
# A tensor is read by numpy's selections, and only the chunks that are needed.

# %%
tensor = store["t2m"]
print(tensor.shape, tensor.dtype, tensor.chunks, tensor.attrs)  # prints (4, 6) float32 (2, 6) {'units': 'K'}
print(tensor[1:3, ::-3])  # prints [[11.  8.]
# prints  [17. 14.]]

# %% [markdown]
# A tensor with the same name is replaced atomically. Readers that have the old tensor open can still read it.

# %%
store.put(values + 1, "t2m")
print(tensor[0, 0], store["t2m"][0, 0])  # prints 0.0 1.0

# %% [markdown]
# Any processes write the parts of a tensor, and one commits: `put.token` is a text for `store.resume`.

# %%
put = store.begin((2, 3), "i4")
for row in (0, 1):
    store.resume(put.token).write((row, 0), numpy.full((1, 3), row, "i4"))
put.commit("rows")
print(store["rows"][:].tolist())  # prints [[0, 0, 0], [1, 1, 1]]
