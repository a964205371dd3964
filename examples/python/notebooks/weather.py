# %% [markdown]
# # Weather: an ensemble of ERA5 by key
#
# Needs ecCodes, numpy, xarray and matplotlib, and the fields that `scripts/weather.sh` fetches into `build/weather`; this
# notebook runs in the root of the source tree, where `examples/python/maps.py` draws maps with coastlines. The pool is in
# the memory of this process; `esker.FieldStore("tank/fields")` uses one that stays. The fields contain modified Copernicus
# Climate Change Service information of 2017.

# %%
import sys

import matplotlib.pyplot as plt
import xarray

import esker

sys.path.append("examples/python")
import maps

store = esker.FieldStore("memory:notebook/weather")
print(store.archive("build/weather/era5-members.grib"), "fields archived")  # prints 160 fields archived
store.flush()

# %% [markdown]
# The axes are what can be requested.

# %%
store.axes()

# %% [markdown]
# A request selects fields. A name that it leaves out may have any value.

# %%
store.list({"param": "t", "levelist": 850, "number": 0})

# %% [markdown]
# xarray opens them as a dataset, whose values are read when they are used.

# %%
members = xarray.open_dataset(store, request={"levtype": "pl"})
print(dict(members.sizes))  # prints {'number': 10, 'time': 4, 'isobaricInhPa': 2, 'latitude': 61, 'longitude': 120}

# %%
temperature = members.t.sel(isobaricInhPa=850).isel(time=-1) - 273.15
mean, spread = temperature.mean("number"), temperature.std("number")
figure, (above, below) = plt.subplots(2, figsize=(9, 9), layout="constrained")
title = "Temperature at 850 hPa, mean of ten members, 2 January 2017, 12 UTC"
maps.draw_into(above, mean.assign_attrs(units="\N{DEGREE SIGN}C"), name=title)
maps.draw_into(below, spread.assign_attrs(units="K"), "YlOrRd", name="Spread of the members")
plt.show()

# %% [markdown]
# A time series reads one point of each field.

# %%
reading = members.t.sel(isobaricInhPa=850).sel(latitude=51, longitude=359, method="nearest") - 273.15
print(reading.mean("number").values.round(1))  # prints [-1.  -0.2 -3.9 -5.9]
reading.plot.line(x="time", add_legend=False)
plt.title("Temperature at 850 hPa above Reading, ten members")
plt.ylabel("\N{DEGREE SIGN}C")
plt.show()
