#%Module1.0
## Environment module in Tcl for an installation of Esker, for Environment Modules; `make install` fills in its prefix
## and version. Lmod reads the file VERSION.lua beside it.
set prefix "@PREFIX@"
set version "@VERSION@"

proc ModulesHelp { } {
    puts stderr "Esker, an object store for HPC that speaks the DAOS API: the command esker, and libdaos with its headers."
}
module-whatis "Name: Esker"
module-whatis "Version: $version"
module-whatis "Category: storage, library"
module-whatis "Description: Object store for HPC that speaks the DAOS API"
module-whatis "URL: https://github.com/esker-store/esker"

# Both have libdaos.so.2.
conflict daos

setenv ESKER_ROOT $prefix
prepend-path PATH $prefix/bin
prepend-path MANPATH $prefix/share/man
# An empty path: the manual pages of the system, which the variable would hide.
append-path MANPATH {}
prepend-path LD_LIBRARY_PATH $prefix/lib
prepend-path LIBRARY_PATH $prefix/lib
prepend-path CPATH $prefix/include
prepend-path PKG_CONFIG_PATH $prefix/lib/pkgconfig
prepend-path CMAKE_PREFIX_PATH $prefix
