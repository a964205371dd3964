# find_package(esker) makes the target esker::esker: libdaos, which has the functions of daos.h and esker.h. The variable
# esker_FORTRAN_SOURCE is the Fortran module, to be compiled with the program.
get_filename_component(_esker_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
get_filename_component(_esker_library "${CMAKE_CURRENT_LIST_DIR}/../../libdaos.so.2" ABSOLUTE)
set(esker_FORTRAN_SOURCE "${_esker_prefix}/include/esker.f90")

if(NOT TARGET esker::esker)
  add_library(esker::esker SHARED IMPORTED)
  set_target_properties(esker::esker PROPERTIES
    IMPORTED_LOCATION "${_esker_library}"
    IMPORTED_SONAME "libdaos.so.2"
    INTERFACE_INCLUDE_DIRECTORIES "${_esker_prefix}/include"
    INTERFACE_LINK_LIBRARIES "uuid")
endif()
unset(_esker_prefix)
unset(_esker_library)
