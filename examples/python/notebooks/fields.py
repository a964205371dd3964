# %% [markdown]
# # Fields by key
#
# Needs ecCodes and numpy. The pool is in the memory of this process; `esker.FieldStore("tank/fields")` uses one that stays.

# %%
import esker

store = esker.FieldStore("memory:notebook/fields")
for step in (0, 6):
    keys = {"paramId": 167, "dataDate": 20240610, "step": step}
    store.archive(esker.make_grib("regular_ll_sfc_grib2", keys))
print(len(store.list()), store.pending[0])  # prints 0 2

# %% [markdown]
# Archived fields become visible at `flush`, atomically.

# %%
store.flush()
print(store.axes({"param": "2t"})["step"])  # prints ['0', '6']

# %% [markdown]
# A request is a dict or a text in the MARS language. Fields come in its order, and are read and decoded on use.

# %%
for field in store.retrieve({"param": "2t", "step": [6, 0]}):
    print(field.key["step"], field.metadata("shortName"), field.values.shape)
# prints 6 2t (496,)
# prints 0 2t (496,)
print(len(store.retrieve("param=2t, step=0/to/12/by/6", partial=True)))  # prints 2
