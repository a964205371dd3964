# %% [markdown]
# # Files by fsspec
#
# Needs fsspec. The pool is in the memory of this process; `esker://tank/home` uses one that stays.

# %%
import fsspec

fs = fsspec.filesystem("esker")
fs.mkdir("esker://memory:notebook/home")
with fsspec.open("esker://memory:notebook/home/run/a.txt", "w") as file:
    file.write("text")
print(fs.ls("memory:notebook/home/run", detail=False))  # prints ['memory:notebook/home/run/a.txt']

# %% [markdown]
# Files of a transaction appear at its end, atomically. If an exception leaves it, none appears.

# %%
with fs.transaction:
    fs.pipe({"memory:notebook/home/run/a.txt": b"new", "memory:notebook/home/run/b.txt": b"second"})
    print(fs.cat("memory:notebook/home/run/a.txt"))  # prints b'text'
print(fs.cat("memory:notebook/home/run/a.txt"))  # prints b'new'
