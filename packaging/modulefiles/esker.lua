-- Environment module of Lmod for an installation of Esker; `make install` fills in its prefix and version.
local prefix = "@PREFIX@"
local version = "@VERSION@"

help([[Esker, an object store for HPC that speaks the DAOS API: the command esker, and libdaos with its headers.]])
whatis("Name: Esker")
whatis("Version: " .. version)
whatis("Category: storage, library")
whatis("Description: Object store for HPC that speaks the DAOS API")
whatis("URL: https://github.com/esker-store/esker")

-- Both have libdaos.so.2.
conflict("daos")

setenv("ESKER_ROOT", prefix)
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
-- An empty path: the manual pages of the system, which the variable would hide.
append_path("MANPATH", "")
prepend_path("LD_LIBRARY_PATH", pathJoin(prefix, "lib"))
prepend_path("LIBRARY_PATH", pathJoin(prefix, "lib"))
prepend_path("CPATH", pathJoin(prefix, "include"))
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib/pkgconfig"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
