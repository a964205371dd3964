#!/usr/bin/env bash
# NetCDF and HDF5: the tools of their libraries, NCO and CDO, whose results equal those in a directory of the system.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need ncgen ncdump nccopy

# make_files: files of all formats from one text.
make_files() {
    {
        echo 'netcdf a { dimensions: time = UNLIMITED; x = 500; variables: double time(time);
            time:units = "days since 2000-01-01"; float t(time, x); t:units = "K"; data: time = 0, 1, 2; t ='
        seq -s , 1500
        echo '; }'
    } >a.cdl
    local format
    for format in 1 2 3 4 5; do ncgen -k $format -o "$format.nc" a.cdl; done
}

libraries() {
    nccopy -k 4 -d 5 1.nc deflated.nc
    nccopy -k 1 -w deflated.nc back.nc
    cmp 1.nc back.nc
    ncdump -p 9 4.nc | grep -v '^netcdf' >dumped
}

hdf5() {
    h5repack -f GZIP=4 3.nc packed.h5
    h5diff 3.nc packed.h5
    h5copy -i 3.nc -o copy.h5 -s /t -d /u
    h5dump -d /u copy.h5 >dumped.h5
}

nco() {
    ncks -O --no_abc --hst -d time,0,1 1.nc part.nc
    ncra -O -h 1.nc mean.nc
    ncrcat -O -h 1.nc mean.nc both.nc
    ncatted -O -h -a units,t,m,c,degC 3.nc
    ncrename -h -v t,temperature 3.nc
    ncdump -h 3.nc | grep temperature >renamed
}

climate() {
    cdo -s -O --no_history timmean 1.nc timmean.nc
    cdo -s -O --no_history cat 1.nc 1.nc cat.nc
    cdo -s -O --no_history splitday 1.nc day.
}

# in_both FUNCTION: runs it here and outside. The files of the classic format and the texts are equal.
in_both() {
    local place
    for place in here "$outside/there"; do
        mkdir -p "$place"
        (
            cd "$place"
            make_files
            "$1"
        )
    done
    is "$(ls here)" "$(ls "$outside/there")"
    (cd here && find . -type f ! -name '*.h5' ! -name '[34]*.nc' ! -name 'deflated.nc') | while read -r file; do
        cmp "here/$file" "$outside/there/$file"
    done
}

test_netcdf() { in_both libraries; }

test_hdf5() {
    has h5repack || return 0
    in_both hdf5
}

test_nco() {
    has ncrename || return 0
    in_both nco
}

test_cdo() {
    has cdo || return 0
    in_both climate
}

run_tests
