! SPDX-License-Identifier: Apache-2.0
!
! Fields by key and tensors from Fortran, on libdaos of Esker: see esker.h, which says what each call does.
! Compile this file with the program, and link libdaos: gfortran esker.f90 program.f90 -ldaos
!
! ierr is 0 or a negated code of daos_errno.h; esker_text() then has the text of the failure. Blanks at the end of
! strings do not count. Shapes, starts and counts have the order of Fortran: the first dimension varies fastest, and the
! first index is 1. C and Python see the dimensions reversed.
!
! A call with an event only starts the work; esker_wait and esker_test say when it has completed. Until then, the event
! and the call's data and results, such as bytes and count, must not be touched. Declare the event as a target, and the
! others as asynchronous; arrays must be contiguous. Keys, shapes and other arguments may be changed at once.
module esker
    use, intrinsic :: iso_c_binding
    implicit none
    private

    public :: esker_handle, esker_container, esker_pair, esker_removed, esker_event
    public :: esker_attribute, esker_tensor_info, esker_collected
    public :: esker_wait, esker_test, esker_event_text
    public :: esker_text, esker_connect, esker_disconnect
    public :: esker_fields_open, esker_fields_close, esker_archive, esker_flush, esker_size, esker_retrieve
    public :: esker_adopt, esker_pending, esker_schema
    public :: esker_select, esker_list, esker_entry, esker_read, esker_selection_close, esker_wipe, esker_purge
    public :: esker_read_at, esker_location, esker_view, esker_view_close
    public :: esker_axes, esker_axis, esker_axes_close, esker_watch, esker_watch_next, esker_watch_close
    public :: esker_tensors_open, esker_tensors_close, esker_begin, esker_token, esker_join, esker_write
    public :: esker_commit, esker_abort, esker_put_close, esker_put
    public :: esker_open, esker_close, esker_describe, esker_get, esker_remove, esker_rename
    public :: esker_inquire, esker_put_inquire, esker_tensors_list, esker_tensors_entry, esker_tensors_list_close
    public :: esker_attr, esker_get_attr, esker_attr_name, esker_collect
    public :: esker_snapshot_create, esker_snapshot_destroy, esker_tensors_at

    !> Characters of a token.
    integer, parameter, public :: ESKER_TOKEN_LENGTH = 36
    !> Longest key of a field as text.
    integer, parameter, public :: ESKER_KEY_LENGTH = 1000
    !> Longest name and longest value in a key.
    integer, parameter, public :: ESKER_NAME_LENGTH = 64, ESKER_VALUE_LENGTH = 255
    !> Types of attributes. A list has ESKER_ATTR_LIST added to the type of its values.
    integer, parameter, public :: ESKER_ATTR_FLAG = 1, ESKER_ATTR_INTEGER = 2, ESKER_ATTR_REAL = 3, &
        ESKER_ATTR_TEXT = 4, ESKER_ATTR_BYTES = 5, ESKER_ATTR_LIST = 256

    !> An open store, selection, PUT or tensor.
    type, bind(c) :: esker_handle
        integer(c_int64_t) :: cookie = 0
    end type

    !> An open pool and container.
    type :: esker_container
        type(esker_handle) :: pool, cont
    end type

    !> A name and a value of a key; in a request, the value may be a list: '0/6/12', '0/to/24/by/6'.
    type :: esker_pair
        character(len=:), allocatable :: name, value
    end type

    !> A call that was started with it. It can be used again once it has completed.
    type, bind(c) :: esker_event
        private
        integer(c_int) :: error = 0
        integer(c_int64_t) :: space(20) = 0, debug = 0
        integer(c_int) :: initialized = 0
    end type

    !> An attribute of a new tensor, which esker_attr makes.
    type :: esker_attribute
        private
        character(len=:), allocatable :: name
        integer(c_int32_t) :: type = 0
        integer(c_int8_t), allocatable :: value(:)
    end type

    !> Description of a tensor. In lists, attributes is 0 and chunks are zeros.
    type :: esker_tensor_info
        !> The name is empty if the tensor has none; dtype is numpy's dtype.str, such as '<f8'.
        character(len=:), allocatable :: uuid, name, dtype
        integer(c_int64_t), allocatable :: shape(:), chunks(:)
        !> Bytes of an element and of all; when the tensor became visible, in milliseconds since 1970.
        integer(c_int64_t) :: item = 0, bytes = 0, committed_ms = 0
        !> Numbers of attributes, and of members of a structured type.
        integer :: attributes = 0, members = 0
    end type

    !> PUTs, tensors and objects that a collection freed, and those that stay.
    type, bind(c) :: esker_collected
        integer(c_int64_t) :: puts = 0, removed = 0, objects = 0, kept = 0
    end type

    !> An attribute of a new tensor: esker_attr(name, value), with a text, an integer, a real, a logical, or an array of
    !! integers or reals.
    interface esker_attr
        module procedure attr_text, attr_int, attr_long, attr_single, attr_double, attr_flag
        module procedure attr_ints, attr_longs, attr_singles, attr_doubles
    end interface

    !> Reads an attribute: esker_get_attr(tensor, name, value, ierr). The type of value is that of the attribute, which
    !! esker_attr_name tells, or ierr is -1031 (-DER_MISMATCH). A real value also receives an integer.
    interface esker_get_attr
        module procedure get_text, get_long, get_double, get_flag, get_longs, get_doubles
    end interface

    !> Fields and bytes that a wipe or purge removed.
    type, bind(c) :: esker_removed
        integer(c_int64_t) :: fields = 0, masked = 0, leftovers = 0, bytes = 0
    end type

    integer, parameter :: DIMENSIONS_MAX = 32
    integer(c_int), parameter :: FLAG_CREATE = 1, FLAG_DISCARD = 2, FLAG_DOIT = 4, FLAG_EXISTING = 8, FLAG_EMPTY = 16
    integer(c_int), parameter :: FLAG_IN_PLACE = 32
    !> Longest path of an adopted file, and longest name of an attribute, in bytes.
    integer, parameter :: PATH_LENGTH = 4096, RECORD_LENGTH = 1048576
    integer(c_int), parameter :: READ_ONLY = 1, READ_WRITE = 2
    integer(c_int), parameter :: EXISTS = -1004, INVALID = -1003, OVERFLOW = -1017, MISMATCH = -1031

    type, bind(c) :: c_pair
        type(c_ptr) :: name, value
    end type

    !> Strings of pairs for C: they live as long as this.
    type :: pairs_for_c
        character(kind=c_char), allocatable :: text(:)
        type(c_pair), allocatable :: entries(:)
    end type

    type, bind(c) :: c_attr
        type(c_ptr) :: name, value
        integer(c_int64_t) :: size
        integer(c_int32_t) :: type, padding
    end type

    !> Names and values of attributes for C: they live as long as this.
    type :: attrs_for_c
        integer(c_int8_t), allocatable :: bytes(:)
        type(c_attr), allocatable :: entries(:)
    end type

    type, bind(c) :: c_epochs
        integer(c_int64_t) :: lo, hi
    end type

    type, bind(c) :: c_slab
        integer(c_int64_t) :: start, step, count
    end type

    type, bind(c) :: c_info
        character(kind=c_char) :: uuid(40), dtype(64), name(1008)
        integer(c_int64_t) :: item, bytes, committed_ms
        integer(c_int32_t) :: attributes, members, ndim, padding
        integer(c_int64_t) :: shape(DIMENSIONS_MAX), chunks(DIMENSIONS_MAX)
    end type

    interface
        integer(c_int) function daos_init() bind(c)
            import
        end function
        integer(c_int) function daos_fini() bind(c)
            import
        end function
        integer(c_int) function daos_pool_connect2(pool, sys, flags, poh, info, ev) bind(c)
            import
            character(kind=c_char), intent(in) :: pool(*)
            type(c_ptr), value :: sys, info, ev
            integer(c_int), value :: flags
            type(esker_handle), intent(out) :: poh
        end function
        integer(c_int) function daos_pool_disconnect(poh, ev) bind(c)
            import
            type(esker_handle), value :: poh
            type(c_ptr), value :: ev
        end function
        integer(c_int) function daos_cont_create_with_label(poh, label, prop, uuid, ev) bind(c)
            import
            type(esker_handle), value :: poh
            character(kind=c_char), intent(in) :: label(*)
            type(c_ptr), value :: prop, uuid, ev
        end function
        integer(c_int) function daos_cont_open2(poh, cont, flags, coh, info, ev) bind(c)
            import
            type(esker_handle), value :: poh
            character(kind=c_char), intent(in) :: cont(*)
            integer(c_int), value :: flags
            type(esker_handle), intent(out) :: coh
            type(c_ptr), value :: info, ev
        end function
        integer(c_int) function daos_cont_close(coh, ev) bind(c)
            import
            type(esker_handle), value :: coh
            type(c_ptr), value :: ev
        end function
        type(c_ptr) function d_errdesc(code) bind(c)
            import
            integer(c_int), value :: code
        end function
        integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
            import
            type(c_ptr), value :: text
        end function

        type(c_ptr) function esker_error_text() bind(c)
            import
        end function
        type(c_ptr) function c_event_text(ev) bind(c, name='esker_event_error_text')
            import
            type(c_ptr), value :: ev
        end function
        integer(c_int) function daos_event_init(ev, eqh, parent) bind(c)
            import
            type(c_ptr), value :: ev, parent
            type(esker_handle), value :: eqh
        end function
        integer(c_int) function daos_event_test(ev, timeout, completed) bind(c)
            import
            type(c_ptr), value :: ev
            integer(c_int64_t), value :: timeout
            logical(c_bool), intent(out) :: completed
        end function
        integer(c_int) function daos_cont_create_snap(coh, epoch, name, ev) bind(c)
            import
            type(esker_handle), value :: coh
            integer(c_int64_t), intent(out) :: epoch
            type(c_ptr), value :: name, ev
        end function
        integer(c_int) function daos_cont_destroy_snap(coh, epochs, ev) bind(c)
            import
            type(esker_handle), value :: coh
            type(c_epochs), value :: epochs
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_fields_open(coh, schema, flags, fsh, ev) bind(c, name='esker_field_store_open')
            import
            type(esker_handle), value :: coh
            type(c_ptr), value :: schema, ev
            integer(c_int), value :: flags
            type(esker_handle), intent(out) :: fsh
        end function
        integer(c_int) function c_fields_close(fsh, flags, ev) bind(c, name='esker_field_store_close')
            import
            type(esker_handle), value :: fsh
            integer(c_int), value :: flags
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_archive(fsh, key, pairs, data, size, ev) bind(c, name='esker_field_archive')
            import
            type(esker_handle), value :: fsh
            type(c_pair), intent(in) :: key(*)
            integer(c_int32_t), value :: pairs
            integer(c_int64_t), value :: size
            type(c_ptr), value :: data, ev
        end function
        integer(c_int) function c_adopt(fsh, key, pairs, path, offset, size, ev) bind(c, name='esker_field_adopt')
            import
            type(esker_handle), value :: fsh
            type(c_pair), intent(in) :: key(*)
            integer(c_int32_t), value :: pairs
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int64_t), value :: offset, size
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_pending(fsh, count, bytes) bind(c, name='esker_field_pending')
            import
            type(esker_handle), value :: fsh
            integer(c_int64_t), intent(out) :: count, bytes
        end function
        integer(c_int) function c_schema(fsh, buf, size) bind(c, name='esker_field_schema')
            import
            type(esker_handle), value :: fsh
            type(c_ptr), value :: buf
            integer(c_int64_t), intent(inout) :: size
        end function
        integer(c_int) function c_flush(fsh, ev) bind(c, name='esker_field_flush')
            import
            type(esker_handle), value :: fsh
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_retrieve(fsh, key, pairs, buf, size, ev) bind(c, name='esker_field_retrieve')
            import
            type(esker_handle), value :: fsh
            type(c_pair), intent(in) :: key(*)
            integer(c_int32_t), value :: pairs
            integer(c_int64_t), intent(inout) :: size
            type(c_ptr), value :: buf, ev
        end function
        integer(c_int) function c_select(fsh, request, pairs, sel, count, ev) bind(c, name='esker_field_select')
            import
            type(esker_handle), value :: fsh
            type(c_pair), intent(in) :: request(*)
            integer(c_int32_t), value :: pairs
            type(esker_handle), intent(out) :: sel
            integer(c_int64_t), intent(out) :: count
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_list(fsh, request, pairs, sel, count, ev) bind(c, name='esker_field_list')
            import
            type(esker_handle), value :: fsh
            type(c_pair), intent(in) :: request(*)
            integer(c_int32_t), value :: pairs
            type(esker_handle), intent(out) :: sel
            integer(c_int64_t), intent(out) :: count
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_entry(sel, index, key, key_size, size) bind(c, name='esker_field_entry')
            import
            type(esker_handle), value :: sel
            integer(c_int64_t), value :: index, key_size
            character(kind=c_char), intent(out) :: key(*)
            integer(c_int64_t), intent(out) :: size
        end function
        integer(c_int) function c_read(sel, first, count, buf, size, ev) bind(c, name='esker_field_read')
            import
            type(esker_handle), value :: sel
            integer(c_int64_t), value :: first, count
            integer(c_int64_t), intent(inout) :: size
            type(c_ptr), value :: buf, ev
        end function
        integer(c_int) function c_read_at(sel, index, offset, buf, size, ev) bind(c, name='esker_field_read_at')
            import
            type(esker_handle), value :: sel
            integer(c_int64_t), value :: index, offset, size
            type(c_ptr), value :: buf, ev
        end function
        integer(c_int) function c_location(sel, index, archived_ms, path, path_size, offset) &
                bind(c, name='esker_field_location')
            import
            type(esker_handle), value :: sel
            integer(c_int64_t), value :: index, path_size
            integer(c_int64_t), intent(out) :: archived_ms, offset
            character(kind=c_char), intent(out) :: path(*)
        end function
        integer(c_int) function c_view(sel, index, flags, view, data, size, ev) bind(c, name='esker_field_view')
            import
            type(esker_handle), value :: sel
            integer(c_int64_t), value :: index
            integer(c_int), value :: flags
            type(esker_handle), intent(out) :: view
            type(c_ptr), intent(out) :: data
            integer(c_int64_t), intent(out) :: size
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_view_close(view, ev) bind(c, name='esker_field_view_close')
            import
            type(esker_handle), value :: view
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_axes(fsh, request, pairs, flags, axes, count, ev) bind(c, name='esker_field_axes')
            import
            type(esker_handle), value :: fsh
            type(c_pair), intent(in) :: request(*)
            integer(c_int32_t), value :: pairs
            integer(c_int), value :: flags
            type(esker_handle), intent(out) :: axes
            integer(c_int32_t), intent(out) :: count
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_axis(axes, index, name, name_size, values) bind(c, name='esker_field_axis')
            import
            type(esker_handle), value :: axes
            integer(c_int32_t), value :: index
            character(kind=c_char), intent(out) :: name(*)
            integer(c_int64_t), value :: name_size
            integer(c_int64_t), intent(out) :: values
        end function
        integer(c_int) function c_axis_value(axes, index, number, text, text_size) &
                bind(c, name='esker_field_axis_value')
            import
            type(esker_handle), value :: axes
            integer(c_int32_t), value :: index
            integer(c_int64_t), value :: number, text_size
            character(kind=c_char), intent(out) :: text(*)
        end function
        integer(c_int) function c_axes_close(axes, ev) bind(c, name='esker_field_axes_close')
            import
            type(esker_handle), value :: axes
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_watch(fsh, request, pairs, flags, watch, ev) bind(c, name='esker_field_watch')
            import
            type(esker_handle), value :: fsh
            type(c_pair), intent(in) :: request(*)
            integer(c_int32_t), value :: pairs
            integer(c_int), value :: flags
            type(esker_handle), intent(out) :: watch
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_watch_next(watch, timeout, sel, count) bind(c, name='esker_field_watch_next')
            import
            type(esker_handle), value :: watch
            integer(c_int64_t), value :: timeout
            type(esker_handle), intent(out) :: sel
            integer(c_int64_t), intent(out) :: count
        end function
        integer(c_int) function c_watch_close(watch, ev) bind(c, name='esker_field_watch_close')
            import
            type(esker_handle), value :: watch
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_select_close(sel, ev) bind(c, name='esker_field_select_close')
            import
            type(esker_handle), value :: sel
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_wipe(fsh, request, pairs, flags, counts, ev) bind(c, name='esker_field_wipe')
            import
            type(esker_handle), value :: fsh
            type(c_pair), intent(in) :: request(*)
            integer(c_int32_t), value :: pairs
            integer(c_int), value :: flags
            type(esker_removed), intent(out) :: counts
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_purge(fsh, request, pairs, flags, counts, ev) bind(c, name='esker_field_purge')
            import
            type(esker_handle), value :: fsh
            type(c_pair), intent(in) :: request(*)
            integer(c_int32_t), value :: pairs
            integer(c_int), value :: flags
            type(esker_removed), intent(out) :: counts
            type(c_ptr), value :: ev
        end function

        integer(c_int) function c_tensors_open(coh, flags, tsh, ev) bind(c, name='esker_tensor_store_open')
            import
            type(esker_handle), value :: coh
            integer(c_int), value :: flags
            type(esker_handle), intent(out) :: tsh
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_tensors_close(tsh, ev) bind(c, name='esker_tensor_store_close')
            import
            type(esker_handle), value :: tsh
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_begin(tsh, dtype, ndim, shape, chunks, attrs, attr_count, put, ev) &
                bind(c, name='esker_tensor_begin')
            import
            type(esker_handle), value :: tsh
            character(kind=c_char), intent(in) :: dtype(*)
            integer(c_int32_t), value :: ndim, attr_count
            integer(c_int64_t), intent(in) :: shape(*)
            type(c_ptr), value :: chunks, attrs, ev
            type(esker_handle), intent(out) :: put
        end function
        integer(c_int) function c_token(put, token) bind(c, name='esker_tensor_token')
            import
            type(esker_handle), value :: put
            character(kind=c_char), intent(out) :: token(*)
        end function
        integer(c_int) function c_join(tsh, token, put, ev) bind(c, name='esker_tensor_join')
            import
            type(esker_handle), value :: tsh
            character(kind=c_char), intent(in) :: token(*)
            type(esker_handle), intent(out) :: put
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_write(put, ndim, start, count, data, size, ev) bind(c, name='esker_tensor_write')
            import
            type(esker_handle), value :: put
            integer(c_int32_t), value :: ndim
            integer(c_int64_t), intent(in) :: start(*), count(*)
            integer(c_int64_t), value :: size
            type(c_ptr), value :: data, ev
        end function
        integer(c_int) function c_commit(put, name, uuid, ev) bind(c, name='esker_tensor_commit')
            import
            type(esker_handle), value :: put
            character(kind=c_char), intent(in) :: name(*)
            type(c_ptr), value :: uuid, ev
        end function
        integer(c_int) function c_abort(put, ev) bind(c, name='esker_tensor_abort')
            import
            type(esker_handle), value :: put
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_put_close(put, ev) bind(c, name='esker_tensor_put_close')
            import
            type(esker_handle), value :: put
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_put(tsh, dtype, ndim, shape, data, size, name, uuid, ev) &
                bind(c, name='esker_tensor_put')
            import
            type(esker_handle), value :: tsh
            character(kind=c_char), intent(in) :: dtype(*), name(*)
            integer(c_int32_t), value :: ndim
            integer(c_int64_t), intent(in) :: shape(*)
            integer(c_int64_t), value :: size
            type(c_ptr), value :: data, uuid, ev
        end function
        integer(c_int) function c_open(tsh, name, th, ev) bind(c, name='esker_tensor_open')
            import
            type(esker_handle), value :: tsh
            character(kind=c_char), intent(in) :: name(*)
            type(esker_handle), intent(out) :: th
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_close(th, ev) bind(c, name='esker_tensor_close')
            import
            type(esker_handle), value :: th
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_query(th, info) bind(c, name='esker_tensor_query')
            import
            type(esker_handle), value :: th
            type(c_info), intent(out) :: info
        end function
        integer(c_int) function c_get(th, slabs, ndim, buf, size, ev) bind(c, name='esker_tensor_get')
            import
            type(esker_handle), value :: th
            type(c_ptr), value :: slabs, buf, ev
            integer(c_int32_t), value :: ndim
            integer(c_int64_t), intent(inout) :: size
        end function
        integer(c_int) function c_put_query(put, info) bind(c, name='esker_tensor_put_query')
            import
            type(esker_handle), value :: put
            type(c_info), intent(out) :: info
        end function
        integer(c_int) function c_tensors_at(tsh, epoch, snapshot, ev) bind(c, name='esker_tensor_store_at')
            import
            type(esker_handle), value :: tsh
            integer(c_int64_t), value :: epoch
            type(esker_handle), intent(out) :: snapshot
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_attribute(th, name, type, buf, size) bind(c, name='esker_tensor_attribute')
            import
            type(esker_handle), value :: th
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int32_t), intent(out) :: type
            type(c_ptr), value :: buf
            integer(c_int64_t), intent(inout) :: size
        end function
        integer(c_int) function c_attribute_name(th, index, name, name_size) &
                bind(c, name='esker_tensor_attribute_name')
            import
            type(esker_handle), value :: th
            integer(c_int32_t), value :: index
            character(kind=c_char), intent(out) :: name(*)
            integer(c_int64_t), value :: name_size
        end function
        integer(c_int) function c_tensor_list(tsh, list, count, ev) bind(c, name='esker_tensor_list')
            import
            type(esker_handle), value :: tsh
            type(esker_handle), intent(out) :: list
            integer(c_int64_t), intent(out) :: count
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_tensor_entry(list, index, info) bind(c, name='esker_tensor_entry')
            import
            type(esker_handle), value :: list
            integer(c_int64_t), value :: index
            type(c_info), intent(out) :: info
        end function
        integer(c_int) function c_tensor_list_close(list, ev) bind(c, name='esker_tensor_list_close')
            import
            type(esker_handle), value :: list
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_collect(tsh, age_s, flags, counts, ev) bind(c, name='esker_tensor_collect')
            import
            type(esker_handle), value :: tsh
            integer(c_int64_t), value :: age_s
            integer(c_int), value :: flags
            type(esker_collected), intent(out) :: counts
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_remove(tsh, name, ev) bind(c, name='esker_tensor_remove')
            import
            type(esker_handle), value :: tsh
            character(kind=c_char), intent(in) :: name(*)
            type(c_ptr), value :: ev
        end function
        integer(c_int) function c_rename(tsh, from, to, ev) bind(c, name='esker_tensor_rename')
            import
            type(esker_handle), value :: tsh
            character(kind=c_char), intent(in) :: from(*), to(*)
            type(c_ptr), value :: ev
        end function
    end interface

contains

    !> Text of the last failure of a call on a store.
    function esker_text() result(text)
        character(len=:), allocatable :: text

        text = from_c(esker_error_text())
    end function

    !> Waits until the call of an event has completed. ierr is that of the call; esker_event_text then has its text.
    subroutine esker_wait(event, ierr)
        type(esker_event), intent(inout), target :: event
        integer, intent(out) :: ierr
        logical :: completed

        call test_event(event, -1_c_int64_t, completed, ierr)
    end subroutine

    !> Whether the call of an event has completed. Then ierr is that of the call.
    subroutine esker_test(event, completed, ierr)
        type(esker_event), intent(inout), target :: event
        logical, intent(out) :: completed
        integer, intent(out) :: ierr

        call test_event(event, 0_c_int64_t, completed, ierr)
    end subroutine

    subroutine test_event(event, timeout, completed, ierr)
        type(esker_event), intent(inout), target :: event
        integer(c_int64_t), intent(in) :: timeout
        logical, intent(out) :: completed
        integer, intent(out) :: ierr
        logical(c_bool) :: ended

        ended = .false.
        ierr = daos_event_test(c_loc(event), timeout, ended)
        completed = ended
        if (ierr == 0 .and. completed) ierr = event%error
    end subroutine

    !> Text of the failure that a call with an event has ended with, empty if it succeeded.
    function esker_event_text(event) result(text)
        type(esker_event), intent(inout), target :: event
        character(len=:), allocatable :: text

        text = from_c(c_event_text(c_loc(event)))
    end function

    !> The event, initialized at its first use, or null if there is none.
    function event_to_c(event) result(address)
        type(esker_event), intent(inout), target, optional :: event
        type(c_ptr) :: address

        address = c_null_ptr
        if (.not. present(event)) return
        address = c_loc(event)
        if (event%initialized == 0) then
            if (daos_event_init(address, esker_handle(), c_null_ptr) == 0) event%initialized = 1
        end if
    end function

    function from_c(address) result(text)
        type(c_ptr), intent(in) :: address
        character(len=:), allocatable :: text
        character(kind=c_char), pointer :: letters(:)
        integer :: at

        call c_f_pointer(address, letters, [c_strlen(address)])
        allocate (character(len=size(letters)) :: text)
        do at = 1, size(letters)
            text(at:at) = letters(at)
        end do
    end function

    !> A string up to its NUL.
    function until_nul(letters) result(text)
        character(kind=c_char), intent(in) :: letters(:)
        character(len=:), allocatable :: text
        integer :: length, at

        length = 0
        do while (length < size(letters))
            if (letters(length + 1) == c_null_char) exit
            length = length + 1
        end do
        allocate (character(len=length) :: text)
        do at = 1, length
            text(at:at) = letters(at)
        end do
    end function

    pure function to_c(text) result(with_nul)
        character(len=*), intent(in) :: text
        character(len=:), allocatable :: with_nul

        with_nul = trim(text) // c_null_char
    end function

    !> Strings and pointers of pairs. The result must be a target as long as C uses it.
    subroutine pairs_to_c(pairs, converted)
        type(esker_pair), intent(in) :: pairs(:)
        type(pairs_for_c), target, intent(out) :: converted
        integer :: number, at

        at = 0
        do number = 1, size(pairs)
            at = at + len_trim(pairs(number)%name) + len_trim(pairs(number)%value) + 2
        end do
        allocate (converted%text(at), converted%entries(size(pairs)))
        at = 1
        do number = 1, size(pairs)
            converted%entries(number)%name = c_loc(converted%text(at))
            call append(pairs(number)%name)
            converted%entries(number)%value = c_loc(converted%text(at))
            call append(pairs(number)%value)
        end do

    contains

        subroutine append(string)
            character(len=*), intent(in) :: string
            integer :: letter

            do letter = 1, len_trim(string)
                converted%text(at) = string(letter:letter)
                at = at + 1
            end do
            converted%text(at) = c_null_char
            at = at + 1
        end subroutine
    end subroutine

    !> The bit, if it is wanted.
    integer(c_int) function flag(bit, wanted)
        integer(c_int), intent(in) :: bit
        logical, intent(in), optional :: wanted

        flag = 0
        if (present(wanted)) flag = merge(bit, 0_c_int, wanted)
    end function

    pure function reversed(lengths) result(backwards)
        integer(c_int64_t), intent(in) :: lengths(:)
        integer(c_int64_t) :: backwards(size(lengths))

        backwards = lengths(size(lengths):1:-1)
    end function

    !> Initializes the library and opens a container of a pool. If it is writable, it is created first unless it exists.
    !! If it fails, message has the description of the code.
    subroutine esker_connect(pool, cont, writable, container, ierr, message)
        character(len=*), intent(in) :: pool, cont
        logical, intent(in) :: writable
        type(esker_container), intent(out) :: container
        integer, intent(out) :: ierr
        character(len=:), allocatable, intent(out), optional :: message
        integer(c_int) :: mode, ignored

        mode = merge(READ_WRITE, READ_ONLY, writable)
        ierr = daos_init()
        if (ierr == 0) then
            ierr = daos_pool_connect2(to_c(pool), c_null_ptr, mode, container%pool, c_null_ptr, c_null_ptr)
            if (ierr == 0) then
                if (writable) ierr = daos_cont_create_with_label(container%pool, to_c(cont), c_null_ptr, c_null_ptr, &
                                                                 c_null_ptr)
                if (ierr == EXISTS) ierr = 0
                if (ierr == 0) ierr = daos_cont_open2(container%pool, to_c(cont), mode, container%cont, c_null_ptr, &
                                                      c_null_ptr)
                if (ierr /= 0) ignored = daos_pool_disconnect(container%pool, c_null_ptr)
            end if
            if (ierr /= 0) ignored = daos_fini()
        end if
        if (present(message)) then
            message = ''
            if (ierr /= 0) message = trim(pool) // '/' // trim(cont) // ': ' // from_c(d_errdesc(ierr))
        end if
    end subroutine

    !> Closes the container and the pool, and ends the use of the library.
    subroutine esker_disconnect(container, ierr)
        type(esker_container), intent(in) :: container
        integer, intent(out) :: ierr

        ierr = daos_cont_close(container%cont, c_null_ptr)
        if (ierr == 0) ierr = daos_pool_disconnect(container%pool, c_null_ptr)
        if (ierr == 0) ierr = daos_fini()
    end subroutine

    !> Opens the field store of a container. With create, an empty container becomes a store.
    subroutine esker_fields_open(container, store, ierr, schema, create)
        type(esker_container), intent(in) :: container
        type(esker_handle), intent(out) :: store
        integer, intent(out) :: ierr
        character(len=*), intent(in), optional :: schema
        logical, intent(in), optional :: create
        character(len=:), allocatable, target :: text
        type(c_ptr) :: at

        at = c_null_ptr
        if (present(schema)) then
            text = to_c(schema)
            at = c_loc(text)
        end if
        ierr = c_fields_open(container%cont, at, flag(FLAG_CREATE, create), store, c_null_ptr)
    end subroutine

    !> Closes a field store. Fields that wait for a flush make it fail, unless discard is true.
    subroutine esker_fields_close(store, ierr, discard)
        type(esker_handle), intent(in) :: store
        integer, intent(out) :: ierr
        logical, intent(in), optional :: discard

        ierr = c_fields_close(store, flag(FLAG_DISCARD, discard), c_null_ptr)
    end subroutine

    !> Archives bytes of an array of any type and rank.
    subroutine esker_archive(store, key, data, bytes, ierr, event)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: key(:)
        type(*), target, asynchronous, intent(in) :: data(*)
        integer(c_int64_t), intent(in) :: bytes
        integer, intent(out) :: ierr
        type(esker_event), intent(inout), target, optional :: event
        type(pairs_for_c), target :: pairs

        call pairs_to_c(key, pairs)
        ierr = c_archive(store, pairs%entries, size(key), c_loc(data), bytes, event_to_c(event))
    end subroutine

    !> Adopts a field: its bytes stay in a file, which the store does not own. The path is absolute. position is that of
    !! the first byte in the file, from 1 as in stream access.
    subroutine esker_adopt(store, key, path, position, bytes, ierr)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: key(:)
        character(len=*), intent(in) :: path
        integer(c_int64_t), intent(in) :: position, bytes
        integer, intent(out) :: ierr
        type(pairs_for_c), target :: pairs

        call pairs_to_c(key, pairs)
        ierr = c_adopt(store, pairs%entries, size(key), to_c(path), position - 1, bytes, c_null_ptr)
    end subroutine

    !> Counts the archived fields that wait for a flush, and their bytes.
    subroutine esker_pending(store, count, bytes, ierr)
        type(esker_handle), intent(in) :: store
        integer(c_int64_t), intent(out) :: count, bytes
        integer, intent(out) :: ierr

        count = 0
        bytes = 0
        ierr = c_pending(store, count, bytes)
    end subroutine

    !> The text of the schema of a store.
    subroutine esker_schema(store, schema, ierr)
        type(esker_handle), intent(in) :: store
        character(len=:), allocatable, intent(out) :: schema
        integer, intent(out) :: ierr
        character(kind=c_char), allocatable, target :: letters(:)
        integer(c_int64_t) :: bytes

        schema = ''
        bytes = 0
        ierr = c_schema(store, c_null_ptr, bytes)
        if (ierr /= 0) return
        allocate (letters(bytes + 1))
        letters = c_null_char
        ierr = c_schema(store, c_loc(letters), bytes)
        schema = until_nul(letters)
    end subroutine

    !> Makes all archived fields visible.
    subroutine esker_flush(store, ierr, event)
        type(esker_handle), intent(in) :: store
        integer, intent(out) :: ierr
        type(esker_event), intent(inout), target, optional :: event

        ierr = c_flush(store, event_to_c(event))
    end subroutine

    !> Bytes of the field with exactly this key.
    subroutine esker_size(store, key, bytes, ierr)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: key(:)
        integer(c_int64_t), intent(out) :: bytes
        integer, intent(out) :: ierr
        type(pairs_for_c), target :: pairs

        bytes = 0
        call pairs_to_c(key, pairs)
        ierr = c_retrieve(store, pairs%entries, size(key), c_null_ptr, bytes, c_null_ptr)
    end subroutine

    !> Reads the field with exactly this key into an array of any type and rank. bytes is the size of the array before,
    !! and that of the field after. If the array is too small, the call fails and reads nothing.
    subroutine esker_retrieve(store, key, data, bytes, ierr, event)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: key(:)
        type(*), target, asynchronous, intent(inout) :: data(*)
        integer(c_int64_t), intent(inout) :: bytes
        integer, intent(out) :: ierr
        type(esker_event), intent(inout), target, optional :: event
        type(pairs_for_c), target :: pairs

        call pairs_to_c(key, pairs)
        ierr = c_retrieve(store, pairs%entries, size(key), c_loc(data), bytes, event_to_c(event))
    end subroutine

    !> Finds all fields of a request, in its order. Each must exist.
    subroutine esker_select(store, request, selection, count, ierr, event)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: request(:)
        type(esker_handle), intent(out) :: selection
        integer(c_int64_t), intent(out) :: count
        integer, intent(out) :: ierr
        type(esker_event), intent(inout), target, optional :: event
        type(pairs_for_c), target :: pairs

        count = 0
        call pairs_to_c(request, pairs)
        ierr = c_select(store, pairs%entries, size(request), selection, count, event_to_c(event))
    end subroutine

    !> Finds the existing fields of a request, possibly none.
    subroutine esker_list(store, request, selection, count, ierr, event)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: request(:)
        type(esker_handle), intent(out) :: selection
        integer(c_int64_t), intent(out) :: count
        integer, intent(out) :: ierr
        type(esker_event), intent(inout), target, optional :: event
        type(pairs_for_c), target :: pairs

        count = 0
        call pairs_to_c(request, pairs)
        ierr = c_list(store, pairs%entries, size(request), selection, count, event_to_c(event))
    end subroutine

    !> The key as text and the bytes of field number index, from 1.
    subroutine esker_entry(selection, index, key, bytes, ierr)
        type(esker_handle), intent(in) :: selection
        integer(c_int64_t), intent(in) :: index
        character(len=:), allocatable, intent(out) :: key
        integer(c_int64_t), intent(out) :: bytes
        integer, intent(out) :: ierr
        character(kind=c_char) :: letters(ESKER_KEY_LENGTH + 1)

        letters = c_null_char
        bytes = 0
        ierr = c_entry(selection, index - 1, letters, size(letters, kind=c_int64_t), bytes)
        key = until_nul(letters)
    end subroutine

    !> Reads count fields of a selection, from number first on, one after another. bytes as in esker_retrieve.
    subroutine esker_read(selection, first, count, data, bytes, ierr, event)
        type(esker_handle), intent(in) :: selection
        integer(c_int64_t), intent(in) :: first, count
        type(*), target, asynchronous, intent(inout) :: data(*)
        integer(c_int64_t), intent(inout) :: bytes
        integer, intent(out) :: ierr
        type(esker_event), intent(inout), target, optional :: event

        ierr = c_read(selection, first - 1, count, c_loc(data), bytes, event_to_c(event))
    end subroutine

    !> Reads a part of field number index, from 1, of a selection. position is that of its first byte, from 1.
    subroutine esker_read_at(selection, index, position, data, bytes, ierr, event)
        type(esker_handle), intent(in) :: selection
        integer(c_int64_t), intent(in) :: index, position, bytes
        type(*), target, asynchronous, intent(inout) :: data(*)
        integer, intent(out) :: ierr
        type(esker_event), intent(inout), target, optional :: event

        ierr = c_read_at(selection, index - 1, position - 1, c_loc(data), bytes, event_to_c(event))
    end subroutine

    !> When field number index was archived, in milliseconds since 1970; for an adopted field also the path of the file,
    !! otherwise empty, and the position of the first byte in it, from 1.
    subroutine esker_location(selection, index, archived_ms, path, position, ierr)
        type(esker_handle), intent(in) :: selection
        integer(c_int64_t), intent(in) :: index
        integer(c_int64_t), intent(out) :: archived_ms, position
        character(len=:), allocatable, intent(out) :: path
        integer, intent(out) :: ierr
        character(kind=c_char) :: letters(PATH_LENGTH + 1)

        letters = c_null_char
        archived_ms = 0
        position = 0
        ierr = c_location(selection, index - 1, archived_ms, letters, size(letters, kind=c_int64_t), position)
        position = position + 1
        path = until_nul(letters)
    end subroutine

    !> Views field number index of a selection, without a copy if possible: c_f_pointer makes address a pointer to its
    !! bytes, which must only be read, until the view is closed. With in_place, it fails if a copy is necessary.
    subroutine esker_view(selection, index, view, address, bytes, ierr, in_place)
        type(esker_handle), intent(in) :: selection
        integer(c_int64_t), intent(in) :: index
        type(esker_handle), intent(out) :: view
        type(c_ptr), intent(out) :: address
        integer(c_int64_t), intent(out) :: bytes
        integer, intent(out) :: ierr
        logical, intent(in), optional :: in_place

        address = c_null_ptr
        bytes = 0
        ierr = c_view(selection, index - 1, flag(FLAG_IN_PLACE, in_place), view, address, bytes, c_null_ptr)
    end subroutine

    !> Closes a view. Its bytes must not be read any more.
    subroutine esker_view_close(view, ierr)
        type(esker_handle), intent(in) :: view
        integer, intent(out) :: ierr

        ierr = c_view_close(view, c_null_ptr)
    end subroutine

    !> Finds the values of each name in the existing fields of a request. count is the number of names. With empty, a
    !! name that some of the fields lack has the empty value, too.
    subroutine esker_axes(store, request, axes, count, ierr, empty)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: request(:)
        type(esker_handle), intent(out) :: axes
        integer, intent(out) :: count, ierr
        logical, intent(in), optional :: empty
        type(pairs_for_c), target :: pairs

        count = 0
        call pairs_to_c(request, pairs)
        ierr = c_axes(store, pairs%entries, size(request), flag(FLAG_EMPTY, empty), axes, count, c_null_ptr)
    end subroutine

    !> The name and the values of axis number index, from 1. Values have the order of the type of the name.
    subroutine esker_axis(axes, index, name, values, ierr)
        type(esker_handle), intent(in) :: axes
        integer, intent(in) :: index
        character(len=:), allocatable, intent(out) :: name
        character(len=ESKER_VALUE_LENGTH), allocatable, intent(out) :: values(:)
        integer, intent(out) :: ierr
        character(kind=c_char) :: letters(ESKER_NAME_LENGTH + 1)
        integer(c_int64_t) :: count, number

        letters = c_null_char
        count = 0
        ierr = c_axis(axes, index - 1, letters, size(letters, kind=c_int64_t), count)
        name = until_nul(letters)
        allocate (values(count))
        do number = 1, count
            if (ierr == 0) call axis_value(axes, index, number, values(number), ierr)
        end do
    end subroutine

    subroutine axis_value(axes, index, number, text, ierr)
        type(esker_handle), intent(in) :: axes
        integer, intent(in) :: index
        integer(c_int64_t), intent(in) :: number
        character(len=ESKER_VALUE_LENGTH), intent(out) :: text
        integer, intent(out) :: ierr
        character(kind=c_char) :: letters(ESKER_VALUE_LENGTH + 1)

        letters = c_null_char
        ierr = c_axis_value(axes, index - 1, number - 1, letters, size(letters, kind=c_int64_t))
        text = until_nul(letters)
    end subroutine

    !> Closes axes.
    subroutine esker_axes_close(axes, ierr)
        type(esker_handle), intent(in) :: axes
        integer, intent(out) :: ierr

        ierr = c_axes_close(axes, c_null_ptr)
    end subroutine

    !> Watches the fields of a request: esker_watch_next yields each once it is flushed. With existing, the existing
    !! fields come first.
    subroutine esker_watch(store, request, watch, ierr, existing)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: request(:)
        type(esker_handle), intent(out) :: watch
        integer, intent(out) :: ierr
        logical, intent(in), optional :: existing
        type(pairs_for_c), target :: pairs

        call pairs_to_c(request, pairs)
        ierr = c_watch(store, pairs%entries, size(request), flag(FLAG_EXISTING, existing), watch, c_null_ptr)
    end subroutine

    !> Waits for the next fields of a watch, for timeout microseconds or, if that is negative, without an end. The
    !! selection has all fields that have arrived. If none has, ierr is -1011 (-DER_TIMEDOUT).
    subroutine esker_watch_next(watch, timeout, selection, count, ierr)
        type(esker_handle), intent(in) :: watch
        integer(c_int64_t), intent(in) :: timeout
        type(esker_handle), intent(out) :: selection
        integer(c_int64_t), intent(out) :: count
        integer, intent(out) :: ierr

        count = 0
        ierr = c_watch_next(watch, timeout, selection, count)
    end subroutine

    !> Closes a watch.
    subroutine esker_watch_close(watch, ierr)
        type(esker_handle), intent(in) :: watch
        integer, intent(out) :: ierr

        ierr = c_watch_close(watch, c_null_ptr)
    end subroutine

    !> Closes a selection.
    subroutine esker_selection_close(selection, ierr)
        type(esker_handle), intent(in) :: selection
        integer, intent(out) :: ierr

        ierr = c_select_close(selection, c_null_ptr)
    end subroutine

    !> Removes the fields of a request, or only counts them unless doit is true.
    subroutine esker_wipe(store, request, removed, ierr, doit, event)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: request(:)
        type(esker_removed), intent(out) :: removed
        integer, intent(out) :: ierr
        logical, intent(in), optional :: doit
        type(esker_event), intent(inout), target, optional :: event
        type(pairs_for_c), target :: pairs

        call pairs_to_c(request, pairs)
        ierr = c_wipe(store, pairs%entries, size(request), flag(FLAG_DOIT, doit), removed, event_to_c(event))
    end subroutine

    !> Frees masked fields and what dead writers have left, or only counts them unless doit is true.
    subroutine esker_purge(store, request, removed, ierr, doit, event)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: request(:)
        type(esker_removed), intent(out) :: removed
        integer, intent(out) :: ierr
        logical, intent(in), optional :: doit
        type(esker_event), intent(inout), target, optional :: event
        type(pairs_for_c), target :: pairs

        call pairs_to_c(request, pairs)
        ierr = c_purge(store, pairs%entries, size(request), flag(FLAG_DOIT, doit), removed, event_to_c(event))
    end subroutine

    !> Opens the tensor store of a container. With create, an empty container becomes a store.
    subroutine esker_tensors_open(container, store, ierr, create)
        type(esker_container), intent(in) :: container
        type(esker_handle), intent(out) :: store
        integer, intent(out) :: ierr
        logical, intent(in), optional :: create

        ierr = c_tensors_open(container%cont, flag(FLAG_CREATE, create), store, c_null_ptr)
    end subroutine

    !> Closes a tensor store.
    subroutine esker_tensors_close(store, ierr)
        type(esker_handle), intent(in) :: store
        integer, intent(out) :: ierr

        ierr = c_tensors_close(store, c_null_ptr)
    end subroutine

    !> Begins a tensor that any processes write in parts. dtype is numpy's dtype.str, such as '<f8'.
    subroutine esker_begin(store, dtype, shape, put, ierr, chunks, attributes)
        type(esker_handle), intent(in) :: store
        character(len=*), intent(in) :: dtype
        integer(c_int64_t), intent(in) :: shape(:)
        type(esker_handle), intent(out) :: put
        integer, intent(out) :: ierr
        integer(c_int64_t), intent(in), optional :: chunks(:)
        type(esker_attribute), intent(in), optional :: attributes(:)
        integer(c_int64_t), target :: lengths(size(shape) + 1)
        type(attrs_for_c), target :: attrs
        type(c_ptr) :: at

        at = c_null_ptr
        if (present(chunks)) then
            ierr = merge(0_c_int, INVALID, size(chunks) == size(shape))
            if (ierr /= 0) return
            lengths(:size(shape)) = reversed(chunks)
            at = c_loc(lengths)
        end if
        call attrs_to_c(attrs, attributes)
        ierr = c_begin(store, to_c(dtype), size(shape), reversed(shape), at, c_loc(attrs%entries), &
                       size(attrs%entries) - 1, put, c_null_ptr)
    end subroutine

    !> The token of a PUT, by which other processes join it.
    subroutine esker_token(put, token, ierr)
        type(esker_handle), intent(in) :: put
        character(len=ESKER_TOKEN_LENGTH), intent(out) :: token
        integer, intent(out) :: ierr
        character(kind=c_char) :: letters(ESKER_TOKEN_LENGTH + 1)

        letters = c_null_char
        ierr = c_token(put, letters)
        token = until_nul(letters)
    end subroutine

    !> Joins a PUT that another process has begun.
    subroutine esker_join(store, token, put, ierr)
        type(esker_handle), intent(in) :: store
        character(len=*), intent(in) :: token
        type(esker_handle), intent(out) :: put
        integer, intent(out) :: ierr

        ierr = c_join(store, to_c(token), put, c_null_ptr)
    end subroutine

    !> Describes the tensor of a PUT, which has no name, no time and no attributes yet.
    subroutine esker_put_inquire(put, info, ierr)
        type(esker_handle), intent(in) :: put
        type(esker_tensor_info), intent(out) :: info
        integer, intent(out) :: ierr
        type(c_info) :: found

        ierr = c_put_query(put, found)
        if (ierr == 0) call info_from_c(found, info)
    end subroutine

    !> Writes a part of a tensor, from an array of any type and rank.
    subroutine esker_write(put, start, count, data, bytes, ierr, event)
        type(esker_handle), intent(in) :: put
        integer(c_int64_t), intent(in) :: start(:), count(:)
        type(*), target, asynchronous, intent(in) :: data(*)
        integer(c_int64_t), intent(in) :: bytes
        integer, intent(out) :: ierr
        type(esker_event), intent(inout), target, optional :: event

        ierr = merge(0_c_int, INVALID, size(start) == size(count))
        if (ierr /= 0) return
        ierr = c_write(put, size(start), reversed(start) - 1, reversed(count), c_loc(data), bytes, event_to_c(event))
    end subroutine

    !> Makes a tensor visible, once all of its writers have finished.
    subroutine esker_commit(put, name, ierr, event)
        type(esker_handle), intent(in) :: put
        character(len=*), intent(in) :: name
        integer, intent(out) :: ierr
        type(esker_event), intent(inout), target, optional :: event

        ierr = c_commit(put, to_c(name), c_null_ptr, event_to_c(event))
    end subroutine

    !> Aborts a PUT and frees its elements.
    subroutine esker_abort(put, ierr)
        type(esker_handle), intent(in) :: put
        integer, intent(out) :: ierr

        ierr = c_abort(put, c_null_ptr)
    end subroutine

    !> Closes the handle of a PUT, which goes on.
    subroutine esker_put_close(put, ierr)
        type(esker_handle), intent(in) :: put
        integer, intent(out) :: ierr

        ierr = c_put_close(put, c_null_ptr)
    end subroutine

    !> Stores a complete tensor, from an array of any type and rank.
    subroutine esker_put(store, dtype, shape, data, bytes, name, ierr, event)
        type(esker_handle), intent(in) :: store
        character(len=*), intent(in) :: dtype, name
        integer(c_int64_t), intent(in) :: shape(:)
        type(*), target, asynchronous, intent(in) :: data(*)
        integer(c_int64_t), intent(in) :: bytes
        integer, intent(out) :: ierr
        type(esker_event), intent(inout), target, optional :: event

        ierr = c_put(store, to_c(dtype), size(shape), reversed(shape), c_loc(data), bytes, to_c(name), c_null_ptr, &
                     event_to_c(event))
    end subroutine

    !> Opens a tensor by its name or UUID.
    subroutine esker_open(store, name, tensor, ierr)
        type(esker_handle), intent(in) :: store
        character(len=*), intent(in) :: name
        type(esker_handle), intent(out) :: tensor
        integer, intent(out) :: ierr

        ierr = c_open(store, to_c(name), tensor, c_null_ptr)
    end subroutine

    !> Closes a tensor.
    subroutine esker_close(tensor, ierr)
        type(esker_handle), intent(in) :: tensor
        integer, intent(out) :: ierr

        ierr = c_close(tensor, c_null_ptr)
    end subroutine

    !> The shape of a tensor, the type of its elements and the bytes of each.
    subroutine esker_describe(tensor, shape, dtype, item, ierr)
        type(esker_handle), intent(in) :: tensor
        integer(c_int64_t), allocatable, intent(out) :: shape(:)
        character(len=:), allocatable, intent(out) :: dtype
        integer(c_int64_t), intent(out) :: item
        integer, intent(out) :: ierr
        type(c_info) :: info

        info%ndim = 0
        info%item = 0
        info%dtype = c_null_char
        ierr = c_query(tensor, info)
        shape = reversed(info%shape(:info%ndim))
        dtype = until_nul(info%dtype)
        item = info%item
    end subroutine

    !> Describes a tensor.
    subroutine esker_inquire(tensor, info, ierr)
        type(esker_handle), intent(in) :: tensor
        type(esker_tensor_info), intent(out) :: info
        integer, intent(out) :: ierr
        type(c_info) :: found

        ierr = c_query(tensor, found)
        if (ierr == 0) call info_from_c(found, info)
    end subroutine

    subroutine info_from_c(found, info)
        type(c_info), intent(in) :: found
        type(esker_tensor_info), intent(out) :: info

        info%uuid = until_nul(found%uuid)
        info%name = until_nul(found%name)
        info%dtype = until_nul(found%dtype)
        allocate (info%shape, source=reversed(found%shape(:found%ndim)))
        allocate (info%chunks, source=reversed(found%chunks(:found%ndim)))
        info%item = found%item
        info%bytes = found%bytes
        info%committed_ms = found%committed_ms
        info%attributes = found%attributes
        info%members = found%members
    end subroutine

    !> Lists the visible tensors of a store, those with names first.
    subroutine esker_tensors_list(store, list, count, ierr)
        type(esker_handle), intent(in) :: store
        type(esker_handle), intent(out) :: list
        integer(c_int64_t), intent(out) :: count
        integer, intent(out) :: ierr

        count = 0
        ierr = c_tensor_list(store, list, count, c_null_ptr)
    end subroutine

    !> Describes tensor number index, from 1, of a list.
    subroutine esker_tensors_entry(list, index, info, ierr)
        type(esker_handle), intent(in) :: list
        integer(c_int64_t), intent(in) :: index
        type(esker_tensor_info), intent(out) :: info
        integer, intent(out) :: ierr
        type(c_info) :: found

        ierr = c_tensor_entry(list, index - 1, found)
        if (ierr == 0) call info_from_c(found, info)
    end subroutine

    !> Closes a list of tensors.
    subroutine esker_tensors_list_close(list, ierr)
        type(esker_handle), intent(in) :: list
        integer, intent(out) :: ierr

        ierr = c_tensor_list_close(list, c_null_ptr)
    end subroutine

    !> The name and the type of attribute number index, from 1.
    subroutine esker_attr_name(tensor, index, name, type, ierr)
        type(esker_handle), intent(in) :: tensor
        integer, intent(in) :: index
        character(len=:), allocatable, intent(out) :: name
        integer, intent(out) :: type, ierr
        character(kind=c_char), allocatable :: letters(:)
        integer(c_int64_t) :: bytes

        name = ''
        type = 0
        allocate (letters(1024))
        do
            letters = c_null_char
            ierr = c_attribute_name(tensor, index - 1, letters, size(letters, kind=c_int64_t))
            if (ierr /= OVERFLOW .or. size(letters) > RECORD_LENGTH) exit
            bytes = 2 * size(letters)
            deallocate (letters)
            allocate (letters(bytes))
        end do
        if (ierr /= 0) return
        name = until_nul(letters)
        bytes = 0
        ierr = c_attribute(tensor, [letters, c_null_char], type, c_null_ptr, bytes)
    end subroutine

    !> The type and the bytes of an attribute.
    subroutine read_attr(tensor, name, type, bytes, ierr)
        type(esker_handle), intent(in) :: tensor
        character(len=*), intent(in) :: name
        integer(c_int32_t), intent(out) :: type
        integer(c_int8_t), allocatable, target, intent(out) :: bytes(:)
        integer, intent(out) :: ierr
        integer(c_int64_t) :: length

        type = 0
        length = 0
        ierr = c_attribute(tensor, to_c(name), type, c_null_ptr, length)
        allocate (bytes(length))
        if (ierr == 0 .and. length > 0) ierr = c_attribute(tensor, to_c(name), type, c_loc(bytes), length)
    end subroutine

    subroutine get_text(tensor, name, value, ierr)
        type(esker_handle), intent(in) :: tensor
        character(len=*), intent(in) :: name
        character(len=:), allocatable, intent(out) :: value
        integer, intent(out) :: ierr
        integer(c_int8_t), allocatable :: bytes(:)
        integer(c_int32_t) :: type
        integer :: at

        call read_attr(tensor, name, type, bytes, ierr)
        allocate (character(len=size(bytes)) :: value)
        if (ierr == 0 .and. type /= ESKER_ATTR_TEXT) ierr = MISMATCH
        do at = 1, size(bytes)
            value(at:at) = transfer(bytes(at), 'a')
        end do
    end subroutine

    subroutine get_flag(tensor, name, value, ierr)
        type(esker_handle), intent(in) :: tensor
        character(len=*), intent(in) :: name
        logical, intent(out) :: value
        integer, intent(out) :: ierr
        integer(c_int8_t), allocatable :: bytes(:)
        integer(c_int32_t) :: type

        value = .false.
        call read_attr(tensor, name, type, bytes, ierr)
        if (ierr == 0 .and. type /= ESKER_ATTR_FLAG) ierr = MISMATCH
        if (ierr == 0) value = bytes(1) == 1
    end subroutine

    subroutine get_long(tensor, name, value, ierr)
        type(esker_handle), intent(in) :: tensor
        character(len=*), intent(in) :: name
        integer(c_int64_t), intent(out) :: value
        integer, intent(out) :: ierr
        integer(c_int8_t), allocatable :: bytes(:)
        integer(c_int32_t) :: type

        value = 0
        call read_attr(tensor, name, type, bytes, ierr)
        if (ierr == 0 .and. type /= ESKER_ATTR_INTEGER) ierr = MISMATCH
        if (ierr == 0) value = transfer(bytes, value)
    end subroutine

    subroutine get_double(tensor, name, value, ierr)
        type(esker_handle), intent(in) :: tensor
        character(len=*), intent(in) :: name
        real(c_double), intent(out) :: value
        integer, intent(out) :: ierr
        integer(c_int8_t), allocatable :: bytes(:)
        integer(c_int32_t) :: type

        value = 0
        call read_attr(tensor, name, type, bytes, ierr)
        if (ierr /= 0) return
        select case (type)
        case (ESKER_ATTR_REAL)
            value = transfer(bytes, value)
        case (ESKER_ATTR_INTEGER)
            value = real(transfer(bytes, 0_c_int64_t), c_double)
        case default
            ierr = MISMATCH
        end select
    end subroutine

    subroutine get_longs(tensor, name, value, ierr)
        type(esker_handle), intent(in) :: tensor
        character(len=*), intent(in) :: name
        integer(c_int64_t), allocatable, intent(out) :: value(:)
        integer, intent(out) :: ierr
        integer(c_int8_t), allocatable :: bytes(:)
        integer(c_int32_t) :: type

        call read_attr(tensor, name, type, bytes, ierr)
        if (ierr == 0 .and. .not. is_list(type, ESKER_ATTR_INTEGER)) ierr = MISMATCH
        if (ierr == 0) value = transfer(bytes, [0_c_int64_t])
        if (ierr /= 0) allocate (value(0))
    end subroutine

    subroutine get_doubles(tensor, name, value, ierr)
        type(esker_handle), intent(in) :: tensor
        character(len=*), intent(in) :: name
        real(c_double), allocatable, intent(out) :: value(:)
        integer, intent(out) :: ierr
        integer(c_int8_t), allocatable :: bytes(:)
        integer(c_int32_t) :: type

        call read_attr(tensor, name, type, bytes, ierr)
        if (ierr == 0 .and. is_list(type, ESKER_ATTR_REAL)) then
            value = transfer(bytes, [0._c_double])
        else if (ierr == 0 .and. is_list(type, ESKER_ATTR_INTEGER)) then
            value = real(transfer(bytes, [0_c_int64_t]), c_double)
        else
            if (ierr == 0) ierr = MISMATCH
            allocate (value(0))
        end if
    end subroutine

    !> Whether a type is that of a list of such values, or of an empty list.
    pure logical function is_list(type, values)
        integer(c_int32_t), intent(in) :: type
        integer, intent(in) :: values

        is_list = type == ESKER_ATTR_LIST .or. type == ESKER_ATTR_LIST + values
    end function

    !> Names and values of attributes, and one entry more that is not used.
    subroutine attrs_to_c(converted, attributes)
        type(attrs_for_c), target, intent(out) :: converted
        type(esker_attribute), intent(in), optional :: attributes(:)
        integer :: number, at, count

        count = 0
        if (present(attributes)) count = size(attributes)
        at = 0
        do number = 1, count
            at = at + len_trim(attributes(number)%name) + size(attributes(number)%value) + 2
        end do
        allocate (converted%bytes(at), converted%entries(count + 1))
        converted%bytes = 0
        at = 1
        do number = 1, count
            call append(attributes(number), converted%entries(number))
        end do

    contains

        subroutine append(attribute, entry)
            type(esker_attribute), intent(in) :: attribute
            type(c_attr), intent(out) :: entry
            integer :: letters

            letters = len_trim(attribute%name)
            entry%name = c_loc(converted%bytes(at))
            converted%bytes(at:at + letters - 1) = transfer(attribute%name(:letters), [0_c_int8_t])
            at = at + letters + 1
            entry%value = c_loc(converted%bytes(at))
            entry%size = size(attribute%value, kind=c_int64_t)
            entry%type = attribute%type
            entry%padding = 0
            converted%bytes(at:at + size(attribute%value) - 1) = attribute%value
            at = at + size(attribute%value) + 1
        end subroutine
    end subroutine

    function attr_text(name, value) result(attribute)
        character(len=*), intent(in) :: name, value
        type(esker_attribute) :: attribute

        attribute = attr_bytes(name, ESKER_ATTR_TEXT, transfer(trim(value), [0_c_int8_t]))
    end function

    function attr_flag(name, value) result(attribute)
        character(len=*), intent(in) :: name
        logical, intent(in) :: value
        type(esker_attribute) :: attribute

        attribute = attr_bytes(name, ESKER_ATTR_FLAG, [merge(1_c_int8_t, 0_c_int8_t, value)])
    end function

    function attr_int(name, value) result(attribute)
        character(len=*), intent(in) :: name
        integer(c_int), intent(in) :: value
        type(esker_attribute) :: attribute

        attribute = attr_long(name, int(value, c_int64_t))
    end function

    function attr_long(name, value) result(attribute)
        character(len=*), intent(in) :: name
        integer(c_int64_t), intent(in) :: value
        type(esker_attribute) :: attribute

        attribute = attr_bytes(name, ESKER_ATTR_INTEGER, transfer(value, [0_c_int8_t]))
    end function

    function attr_single(name, value) result(attribute)
        character(len=*), intent(in) :: name
        real(c_float), intent(in) :: value
        type(esker_attribute) :: attribute

        attribute = attr_double(name, real(value, c_double))
    end function

    function attr_double(name, value) result(attribute)
        character(len=*), intent(in) :: name
        real(c_double), intent(in) :: value
        type(esker_attribute) :: attribute

        attribute = attr_bytes(name, ESKER_ATTR_REAL, transfer(value, [0_c_int8_t]))
    end function

    function attr_ints(name, value) result(attribute)
        character(len=*), intent(in) :: name
        integer(c_int), intent(in) :: value(:)
        type(esker_attribute) :: attribute

        attribute = attr_longs(name, int(value, c_int64_t))
    end function

    function attr_longs(name, value) result(attribute)
        character(len=*), intent(in) :: name
        integer(c_int64_t), intent(in) :: value(:)
        type(esker_attribute) :: attribute

        attribute = attr_bytes(name, ESKER_ATTR_LIST + ESKER_ATTR_INTEGER, transfer(value, [0_c_int8_t]))
    end function

    function attr_singles(name, value) result(attribute)
        character(len=*), intent(in) :: name
        real(c_float), intent(in) :: value(:)
        type(esker_attribute) :: attribute

        attribute = attr_doubles(name, real(value, c_double))
    end function

    function attr_doubles(name, value) result(attribute)
        character(len=*), intent(in) :: name
        real(c_double), intent(in) :: value(:)
        type(esker_attribute) :: attribute

        attribute = attr_bytes(name, ESKER_ATTR_LIST + ESKER_ATTR_REAL, transfer(value, [0_c_int8_t]))
    end function

    function attr_bytes(name, type, value) result(attribute)
        character(len=*), intent(in) :: name
        integer, intent(in) :: type
        integer(c_int8_t), intent(in) :: value(:)
        type(esker_attribute) :: attribute

        attribute%name = name
        attribute%type = type
        allocate (attribute%value, source=value)
    end function

    !> Frees PUTs that began at least age_s seconds ago and were never committed, and removed tensors; or only counts
    !! them unless doit is true.
    subroutine esker_collect(store, age_s, collected, ierr, doit)
        type(esker_handle), intent(in) :: store
        integer(c_int64_t), intent(in) :: age_s
        type(esker_collected), intent(out) :: collected
        integer, intent(out) :: ierr
        logical, intent(in), optional :: doit

        ierr = c_collect(store, age_s, flag(FLAG_DOIT, doit), collected, c_null_ptr)
    end subroutine

    !> Creates a snapshot of a container: its state at epoch.
    subroutine esker_snapshot_create(container, epoch, ierr)
        type(esker_container), intent(in) :: container
        integer(c_int64_t), intent(out) :: epoch
        integer, intent(out) :: ierr

        epoch = 0
        ierr = daos_cont_create_snap(container%cont, epoch, c_null_ptr, c_null_ptr)
    end subroutine

    !> Destroys a snapshot.
    subroutine esker_snapshot_destroy(container, epoch, ierr)
        type(esker_container), intent(in) :: container
        integer(c_int64_t), intent(in) :: epoch
        integer, intent(out) :: ierr

        ierr = daos_cont_destroy_snap(container%cont, c_epochs(epoch, epoch), c_null_ptr)
    end subroutine

    !> Opens a tensor store in the state of a snapshot, for reading. esker_tensors_close closes it.
    subroutine esker_tensors_at(store, epoch, snapshot, ierr)
        type(esker_handle), intent(in) :: store
        integer(c_int64_t), intent(in) :: epoch
        type(esker_handle), intent(out) :: snapshot
        integer, intent(out) :: ierr

        ierr = c_tensors_at(store, epoch, snapshot, c_null_ptr)
    end subroutine

    !> Reads a tensor, or a selection of its elements, into an array of any type and rank. bytes as in esker_retrieve.
    !! start and count are given together, each with an entry for each dimension. Without step, each is 1.
    subroutine esker_get(tensor, data, bytes, ierr, start, count, step, event)
        type(esker_handle), intent(in) :: tensor
        type(*), target, asynchronous, intent(inout) :: data(*)
        integer(c_int64_t), intent(inout) :: bytes
        integer, intent(out) :: ierr
        integer(c_int64_t), intent(in), optional :: start(:), count(:), step(:)
        type(esker_event), intent(inout), target, optional :: event
        type(c_slab), target :: slabs(DIMENSIONS_MAX)
        logical :: fits
        integer :: ndim

        ierr = INVALID
        ndim = 0
        if (present(start) .neqv. present(count)) return
        if (present(step) .and. .not. present(start)) return
        if (present(start)) then
            ndim = size(start)
            fits = ndim > 0 .and. ndim <= DIMENSIONS_MAX .and. size(count) == ndim
            if (fits .and. present(step)) fits = size(step) == ndim
            if (.not. fits) return
            slabs(:ndim)%start = reversed(start) - 1
            slabs(:ndim)%count = reversed(count)
            slabs(:ndim)%step = 1
            if (present(step)) slabs(:ndim)%step = reversed(step)
        end if
        if (ndim == 0) then
            ierr = c_get(tensor, c_null_ptr, 0, c_loc(data), bytes, event_to_c(event))
        else
            ierr = c_get(tensor, c_loc(slabs), ndim, c_loc(data), bytes, event_to_c(event))
        end if
    end subroutine

    !> Removes a tensor by its name or UUID.
    subroutine esker_remove(store, name, ierr)
        type(esker_handle), intent(in) :: store
        character(len=*), intent(in) :: name
        integer, intent(out) :: ierr

        ierr = c_remove(store, to_c(name), c_null_ptr)
    end subroutine

    !> Gives a tensor another name.
    subroutine esker_rename(store, from, to, ierr)
        type(esker_handle), intent(in) :: store
        character(len=*), intent(in) :: from, to
        integer, intent(out) :: ierr

        ierr = c_rename(store, to_c(from), to_c(to), c_null_ptr)
    end subroutine
end module
