! SPDX-License-Identifier: Apache-2.0
!
! Fields by key and tensors from Fortran, on libdaos of Esker: see esker.h, which says what each call does.
! Compile this file with the program, and link libdaos: gfortran esker.f90 program.f90 -ldaos
!
! All calls block. ierr is 0 or a negated code of daos_errno.h; esker_text() then has the text of the failure. Blanks
! at the end of strings do not count. Shapes, starts and counts have the order of Fortran: the first dimension varies
! fastest, and the first index is 1. C and Python see the dimensions reversed.
module esker
    use, intrinsic :: iso_c_binding
    implicit none
    private

    public :: esker_handle, esker_container, esker_pair, esker_removed
    public :: esker_text, esker_connect, esker_disconnect
    public :: esker_fields_open, esker_fields_close, esker_archive, esker_flush, esker_size, esker_retrieve
    public :: esker_select, esker_list, esker_entry, esker_read, esker_selection_close, esker_wipe, esker_purge
    public :: esker_tensors_open, esker_tensors_close, esker_begin, esker_token, esker_join, esker_write
    public :: esker_commit, esker_abort, esker_put_close, esker_put
    public :: esker_open, esker_close, esker_describe, esker_get, esker_remove, esker_rename

    !> Characters of a token.
    integer, parameter, public :: ESKER_TOKEN_LENGTH = 36
    !> Longest key of a field as text.
    integer, parameter, public :: ESKER_KEY_LENGTH = 1000

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

    !> Fields and bytes that a wipe or purge removed.
    type, bind(c) :: esker_removed
        integer(c_int64_t) :: fields = 0, masked = 0, leftovers = 0, bytes = 0
    end type

    integer, parameter :: DIMENSIONS_MAX = 32
    integer(c_int), parameter :: FLAG_CREATE = 1, FLAG_DISCARD = 2, FLAG_DOIT = 4
    integer(c_int), parameter :: READ_ONLY = 1, READ_WRITE = 2
    integer(c_int), parameter :: EXISTS = -1004, INVALID = -1003

    type, bind(c) :: c_pair
        type(c_ptr) :: name, value
    end type

    !> Strings of pairs for C: they live as long as this.
    type :: pairs_for_c
        character(kind=c_char), allocatable :: text(:)
        type(c_pair), allocatable :: entries(:)
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
    subroutine esker_archive(store, key, data, bytes, ierr)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: key(:)
        type(*), target, intent(in) :: data(*)
        integer(c_int64_t), intent(in) :: bytes
        integer, intent(out) :: ierr
        type(pairs_for_c), target :: pairs

        call pairs_to_c(key, pairs)
        ierr = c_archive(store, pairs%entries, size(key), c_loc(data), bytes, c_null_ptr)
    end subroutine

    !> Makes all archived fields visible.
    subroutine esker_flush(store, ierr)
        type(esker_handle), intent(in) :: store
        integer, intent(out) :: ierr

        ierr = c_flush(store, c_null_ptr)
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
    subroutine esker_retrieve(store, key, data, bytes, ierr)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: key(:)
        type(*), target, intent(inout) :: data(*)
        integer(c_int64_t), intent(inout) :: bytes
        integer, intent(out) :: ierr
        type(pairs_for_c), target :: pairs

        call pairs_to_c(key, pairs)
        ierr = c_retrieve(store, pairs%entries, size(key), c_loc(data), bytes, c_null_ptr)
    end subroutine

    !> Finds all fields of a request, in its order. Each must exist.
    subroutine esker_select(store, request, selection, count, ierr)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: request(:)
        type(esker_handle), intent(out) :: selection
        integer(c_int64_t), intent(out) :: count
        integer, intent(out) :: ierr
        type(pairs_for_c), target :: pairs

        count = 0
        call pairs_to_c(request, pairs)
        ierr = c_select(store, pairs%entries, size(request), selection, count, c_null_ptr)
    end subroutine

    !> Finds the existing fields of a request, possibly none.
    subroutine esker_list(store, request, selection, count, ierr)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: request(:)
        type(esker_handle), intent(out) :: selection
        integer(c_int64_t), intent(out) :: count
        integer, intent(out) :: ierr
        type(pairs_for_c), target :: pairs

        count = 0
        call pairs_to_c(request, pairs)
        ierr = c_list(store, pairs%entries, size(request), selection, count, c_null_ptr)
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
    subroutine esker_read(selection, first, count, data, bytes, ierr)
        type(esker_handle), intent(in) :: selection
        integer(c_int64_t), intent(in) :: first, count
        type(*), target, intent(inout) :: data(*)
        integer(c_int64_t), intent(inout) :: bytes
        integer, intent(out) :: ierr

        ierr = c_read(selection, first - 1, count, c_loc(data), bytes, c_null_ptr)
    end subroutine

    !> Closes a selection.
    subroutine esker_selection_close(selection, ierr)
        type(esker_handle), intent(in) :: selection
        integer, intent(out) :: ierr

        ierr = c_select_close(selection, c_null_ptr)
    end subroutine

    !> Removes the fields of a request, or only counts them unless doit is true.
    subroutine esker_wipe(store, request, removed, ierr, doit)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: request(:)
        type(esker_removed), intent(out) :: removed
        integer, intent(out) :: ierr
        logical, intent(in), optional :: doit
        type(pairs_for_c), target :: pairs

        call pairs_to_c(request, pairs)
        ierr = c_wipe(store, pairs%entries, size(request), flag(FLAG_DOIT, doit), removed, c_null_ptr)
    end subroutine

    !> Frees masked fields and what dead writers have left, or only counts them unless doit is true.
    subroutine esker_purge(store, request, removed, ierr, doit)
        type(esker_handle), intent(in) :: store
        type(esker_pair), intent(in) :: request(:)
        type(esker_removed), intent(out) :: removed
        integer, intent(out) :: ierr
        logical, intent(in), optional :: doit
        type(pairs_for_c), target :: pairs

        call pairs_to_c(request, pairs)
        ierr = c_purge(store, pairs%entries, size(request), flag(FLAG_DOIT, doit), removed, c_null_ptr)
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
    subroutine esker_begin(store, dtype, shape, put, ierr, chunks)
        type(esker_handle), intent(in) :: store
        character(len=*), intent(in) :: dtype
        integer(c_int64_t), intent(in) :: shape(:)
        type(esker_handle), intent(out) :: put
        integer, intent(out) :: ierr
        integer(c_int64_t), intent(in), optional :: chunks(:)
        integer(c_int64_t), target :: lengths(size(shape) + 1)
        type(c_ptr) :: at

        at = c_null_ptr
        if (present(chunks)) then
            ierr = merge(0_c_int, INVALID, size(chunks) == size(shape))
            if (ierr /= 0) return
            lengths(:size(shape)) = reversed(chunks)
            at = c_loc(lengths)
        end if
        ierr = c_begin(store, to_c(dtype), size(shape), reversed(shape), at, c_null_ptr, 0, put, c_null_ptr)
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

    !> Writes a part of a tensor, from an array of any type and rank.
    subroutine esker_write(put, start, count, data, bytes, ierr)
        type(esker_handle), intent(in) :: put
        integer(c_int64_t), intent(in) :: start(:), count(:)
        type(*), target, intent(in) :: data(*)
        integer(c_int64_t), intent(in) :: bytes
        integer, intent(out) :: ierr

        ierr = merge(0_c_int, INVALID, size(start) == size(count))
        if (ierr /= 0) return
        ierr = c_write(put, size(start), reversed(start) - 1, reversed(count), c_loc(data), bytes, c_null_ptr)
    end subroutine

    !> Makes a tensor visible, once all of its writers have finished.
    subroutine esker_commit(put, name, ierr)
        type(esker_handle), intent(in) :: put
        character(len=*), intent(in) :: name
        integer, intent(out) :: ierr

        ierr = c_commit(put, to_c(name), c_null_ptr, c_null_ptr)
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
    subroutine esker_put(store, dtype, shape, data, bytes, name, ierr)
        type(esker_handle), intent(in) :: store
        character(len=*), intent(in) :: dtype, name
        integer(c_int64_t), intent(in) :: shape(:)
        type(*), target, intent(in) :: data(*)
        integer(c_int64_t), intent(in) :: bytes
        integer, intent(out) :: ierr

        ierr = c_put(store, to_c(dtype), size(shape), reversed(shape), c_loc(data), bytes, to_c(name), c_null_ptr, &
                     c_null_ptr)
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

    !> Reads a tensor, or a selection of its elements, into an array of any type and rank. bytes as in esker_retrieve.
    !! start and count are given together, each with an entry for each dimension. Without step, each is 1.
    subroutine esker_get(tensor, data, bytes, ierr, start, count, step)
        type(esker_handle), intent(in) :: tensor
        type(*), target, intent(inout) :: data(*)
        integer(c_int64_t), intent(inout) :: bytes
        integer, intent(out) :: ierr
        integer(c_int64_t), intent(in), optional :: start(:), count(:), step(:)
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
            ierr = c_get(tensor, c_null_ptr, 0, c_loc(data), bytes, c_null_ptr)
        else
            ierr = c_get(tensor, c_loc(slabs), ndim, c_loc(data), bytes, c_null_ptr)
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
