# %% [markdown]
# # A program for DAOS's pydaos
#
# `import pydaos` needs no change. The pool is in the memory of this process; `DCont("tank", "neo")` uses one that stays.

# %%
import pydaos

import esker

esker.Pool("memory:notebook").create_container("neo")
cont = pydaos.DCont("memory:notebook", "neo")
cities = cont.dict("stadium", {"Barcelona": "Camp Nou", "London": "Wembley"})
cities["Milano"] = "San Siro"
print(cities["Milano"], len(cities), "Paris" in cities)  # prints b'San Siro' 3 False

# %% [markdown]
# Many at once; None removes a key.

# %%
print(cities.bget({"London": None, "Paris": None}))  # prints {'London': b'Wembley', 'Paris': None}
cities.bput({"London": None, "Rio": "Nilton Santos"})
print(sorted(cont["stadium"]))  # prints ['Barcelona', 'Milano', 'Rio']
