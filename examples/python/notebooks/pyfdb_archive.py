# %% [markdown]
# # A program for pyfdb
#
# `from esker import pyfdb` takes the place of `import pyfdb`, and a store's name the place of the configuration. The
# pool is in the memory of this process.

# %%
from esker import pyfdb

key = {"class": "rd", "expver": "0001", "stream": "oper", "date": "20240610", "time": "0000", "domain": "g"}
key |= {"type": "fc", "levtype": "sfc", "param": "167"}
fdb = pyfdb.FDB("memory:notebook/fields")
for step in ("0", "6"):
    fdb.archive(f"step {step}\n".encode(), key | {"step": step})
fdb.flush()

# %%
for element in fdb.list({"class": "rd"}):
    print(element.combined_key()["step"], element.length())
# prints 0 7
# prints 6 7

# %%
with fdb.retrieve(key | {"step": ["6", "0"]}) as handle:
    print(handle.read())  # prints b'step 6\nstep 0\n'
print(fdb.axes({})["step"])  # prints ['0', '6']
