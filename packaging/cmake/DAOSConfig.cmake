# The DAOS API on Esker, for CMake:
#
#   find_package(DAOS CONFIG REQUIRED)
#   target_link_libraries(program PRIVATE DAOS::daos)
#
# DAOS::daos is the library with its headers; DAOS::dfs and DAOS::duns name the same library. The variables
# DAOS_INCLUDE_DIRS and DAOS_LIBRARIES have its headers, and the libraries to link.
get_filename_component(_daos_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
get_filename_component(_daos_library "${CMAKE_CURRENT_LIST_DIR}/../../libdaos.so" ABSOLUTE)

if(NOT EXISTS "${_daos_root}/include/daos.h" OR NOT EXISTS "${_daos_library}")
    set(DAOS_FOUND FALSE)
    set(DAOS_NOT_FOUND_MESSAGE "${_daos_root} has no include/daos.h or no libdaos.so: install Esker's development files")
    return()
endif()

# Programs call libuuid's functions themselves: DAOS's headers have its type.
find_library(DAOS_UUID_LIBRARY uuid)
mark_as_advanced(DAOS_UUID_LIBRARY)
if(NOT DAOS_UUID_LIBRARY)
    set(DAOS_FOUND FALSE)
    set(DAOS_NOT_FOUND_MESSAGE "libuuid is missing: install its development files (uuid-dev, libuuid-devel)")
    return()
endif()

set(DAOS_INCLUDE_DIRS "${_daos_root}/include")
set(DAOS_LIBRARIES "${_daos_library}" "${DAOS_UUID_LIBRARY}")

foreach(_daos_target daos dfs duns)
    if(NOT TARGET DAOS::${_daos_target})
        add_library(DAOS::${_daos_target} SHARED IMPORTED)
        set_target_properties(DAOS::${_daos_target} PROPERTIES
            IMPORTED_LOCATION "${_daos_library}"
            INTERFACE_INCLUDE_DIRECTORIES "${DAOS_INCLUDE_DIRS}"
            INTERFACE_LINK_LIBRARIES "${DAOS_UUID_LIBRARY}")
    endif()
endforeach()
unset(_daos_root)
unset(_daos_library)
unset(_daos_target)
