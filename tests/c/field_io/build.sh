# shellcheck shell=bash
# Builds ECMWF's Field I/O. Sourced.
#
# environment: FIELD_IO_SRC, a checkout of ecmwf-projects/daos-tests; ESKER_LIB, the directory of libdaos; CC

# build_field_io MODE HEADERS CLASS FOLDER: generates the configuration that its own build system would, with Arrays of
# the class, then builds both programs into the folder.
build_field_io() {
    local mode=$1 headers=$2 class=$3 folder=$4 sources=$FIELD_IO_SRC/src/field_io/src tool
    local generated=$folder/generated
    mkdir -p "$generated"
    {
        case $mode in
        arrays) echo "#define daos_field_io_HAVE_SIMPLIFIED" ;;
        no-containers) echo "#define daos_field_io_HAVE_SIMPLIFIED_KVS" ;;
        esac
        echo '#define DAOS_FIELD_IO_OC_MAIN_KV "OC_SX"'
        echo '#define DAOS_FIELD_IO_OC_INDEX_KV "OC_S2"'
        echo "#define DAOS_FIELD_IO_OC_STORE_ARRAY \"OC_$class\""
    } >"$generated/daos_field_io_config.h"
    echo "const char *daos_field_io_version();" >"$generated/daos_field_io_version.h"
    for tool in write read; do
        "${CC:-cc}" -O2 -w -I"$headers" -I"$generated" -I"$sources/daos_field_io" \
            "$sources/tools/daos_field_$tool.c" "$sources/daos_field_io/daos_field_io.c" \
            -o "$folder/$tool" -L"$ESKER_LIB" -ldaos -luuid || return
    done
}
