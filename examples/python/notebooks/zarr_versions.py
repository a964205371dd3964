# %% [markdown]
# # zarr, with commits and versions
#
# Needs zarr 3. The pool is in the memory of this process; `Store("tank/climate")` uses one that stays.

# %%
import zarr

from esker.zarr import Store

store = Store("memory:notebook/climate")
array = zarr.create_array(store, name="t2m", shape=(4, 10), chunks=(1, 10), dtype="f4")
array[0] = 280
print(zarr.open_array(store, path="t2m", mode="r")[0, 0])  # prints 280.0

# %% [markdown]
# Other processes see the writes of a session at its commit, all at once.

# %%
with store.transaction("the second step", name="v1") as session:
    zarr.open_array(session, path="t2m")[1] = 281
    print(zarr.open_array(store, path="t2m", mode="r")[1, 0])  # prints 0.0
print(zarr.open_array(store, path="t2m", mode="r")[1, 0])  # prints 281.0

# %% [markdown]
# Each commit is a version, which can be opened later.

# %%
array[1] = 0
print([commit.message for commit in store.ancestry()])  # prints ['the second step']
print(zarr.open_array(Store("memory:notebook/climate", at="v1"), path="t2m", mode="r")[1, 0])  # prints 281.0
