# %% [markdown]
# # Fields as datasets and arrays: xarray, zarr, z3fdb
#
# Needs ecCodes, xarray, dask and zarr 3. The pool is in the memory of this process.

# %%
import xarray
import zarr

import esker
from esker.z3fdb import AxisDefinition, Chunking, ExtractorType, SimpleStoreBuilder
from esker.zarr import Fields

with esker.FieldStore("memory:notebook/fields") as store:
    for step in (0, 6):
        for level in (850, 500):
            keys = {"paramId": 130, "dataDate": 20240610, "step": step, "level": level}
            store.archive(esker.make_grib("regular_ll_pl_grib2", keys))

# %% [markdown]
# xarray opens a URL. Values are read when they are used.

# %%
dataset = xarray.open_dataset("esker://memory:notebook/fields?levtype=pl")
print(dict(dataset.sizes))  # prints {'step': 2, 'isobaricInhPa': 2, 'latitude': 31, 'longitude': 16}
print(dataset.t.attrs["units"], dataset.t.sel(isobaricInhPa=500).isel(step=0).shape)  # prints K (31, 16)

# %% [markdown]
# `Fields` looks up only the values of the names, so it opens archives of any size. Any program that reads zarr reads it.

# %%
fields = Fields("memory:notebook/fields", {"levtype": "pl"})
print(zarr.open_group(fields, mode="r")["t"].chunks)  # prints (1, 1, 31, 16)
mean = xarray.open_zarr(fields).t.mean(("latitude", "longitude"))
print(mean.compute().shape)  # prints (2, 2)

# %% [markdown]
# Programs for FDB's z3fdb define the axes themselves. Missing fields are NaN.

# %%
builder = SimpleStoreBuilder("memory:notebook/fields")
request = {"date": 20240610, "levtype": "pl", "param": 130, "levelist": [850, 500], "step": "0/to/12/by/6"}
axes = [AxisDefinition(["step"], Chunking.SINGLE_VALUE), AxisDefinition(["levelist"], Chunking.WHOLE_AXIS)]
builder.add_part(request, axes, ExtractorType.GRIB)
print(zarr.open_array(builder.build(), mode="r")[:, 0, 0] > 0)  # prints [ True  True False]
