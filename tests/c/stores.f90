! SPDX-License-Identifier: Apache-2.0
!
! Every call of the Fortran module that the examples leave out, and calls that fail.
! usage: stores POOL FIELDS TENSORS
program stores
    use esker
    use, intrinsic :: iso_c_binding
    implicit none
    integer, parameter :: L = c_int64_t
    integer, parameter :: INVALID = -1003, NO_HANDLE = -1002, MISSING = -1005, ALREADY = -1008
    integer, parameter :: BUSY = -1012, TOO_BIG = -2013
    type(esker_container) :: container
    character(len=256) :: pool, label
    integer :: ierr

    call get_command_argument(1, pool)
    call get_command_argument(2, label)
    call esker_connect(pool, label, .true., container, ierr)
    call is(ierr, 0, 'connect')
    call test_fields()
    call esker_disconnect(container, ierr)
    call is(ierr, 0, 'disconnect')
    call get_command_argument(3, label)
    call esker_connect(pool, label, .true., container, ierr)
    call is(ierr, 0, 'connect')
    call test_tensors()
    call esker_disconnect(container, ierr)
    call is(ierr, 0, 'disconnect')
    call esker_connect(pool, label, .false., container, ierr)
    call is(ierr, 0, 'connect read-only')
    call esker_disconnect(container, ierr)
    call is(ierr, 0, 'disconnect')

contains

    subroutine is(found, expected, what)
        integer, intent(in) :: found, expected
        character(len=*), intent(in) :: what

        if (found == expected) return
        print '(a, ": ", i0, ", not ", i0, ": ", a)', what, found, expected, esker_text()
        error stop
    end subroutine

    subroutine holds(condition, what)
        logical, intent(in) :: condition
        character(len=*), intent(in) :: what

        if (.not. condition) error stop what
    end subroutine

    subroutine test_fields()
        type(esker_handle) :: store, selection
        type(esker_removed) :: removed
        character(len=:), allocatable :: key
        integer(c_int8_t) :: data(5), both(10), small(3)
        integer(L) :: bytes, count
        integer :: step
        character(len=2) :: text

        call esker_fields_open(container, store, ierr)
        call is(ierr, INVALID, 'open without create')
        call esker_fields_open(container, store, ierr, schema='[run [type [step: Integer]]]   ', create=.true.)
        call is(ierr, 0, 'open')
        do step = 1, 2
            write (text, '(i0)') step
            data = int(step, c_int8_t)
            call esker_archive(store, [esker_pair('run  ', 'a'), esker_pair('type', 'fc '), esker_pair('step', text)], &
                               data, 5_L, ierr)
            call is(ierr, 0, 'archive')
        end do
        call esker_fields_close(store, ierr)
        call is(ierr, BUSY, 'close with unflushed fields')
        call esker_flush(store, ierr)
        call is(ierr, 0, 'flush')
        call esker_size(store, key_of('1'), bytes, ierr)
        call is(ierr, 0, 'size')
        call holds(bytes == 5, 'size of a field')
        small = 0
        bytes = size(small)
        call esker_retrieve(store, key_of('1'), small, bytes, ierr)
        call is(ierr, TOO_BIG, 'a small buffer')
        call holds(bytes == 5 .and. all(small == 0), 'a small buffer stays')
        call esker_select(store, key_of('2/1'), selection, count, ierr)
        call is(ierr, 0, 'select')
        call holds(count == 2, 'selected fields')
        bytes = size(both)
        call esker_read(selection, 1_L, 2_L, both, bytes, ierr)
        call is(ierr, 0, 'read')
        call holds(all(both(:5) == 2) .and. all(both(6:) == 1), 'fields in the order of the request')
        call esker_entry(selection, 2_L, key, bytes, ierr)
        call is(ierr, 0, 'entry')
        call holds(key == 'run=a,type=fc,step=1' .and. bytes == 5, 'an entry')
        call esker_entry(selection, 3_L, key, bytes, ierr)
        call is(ierr, INVALID, 'an entry past the end')
        call esker_selection_close(selection, ierr)
        call is(ierr, 0, 'close a selection')
        call esker_select(store, key_of('3'), selection, count, ierr)
        call is(ierr, MISSING, 'select a missing field')
        call esker_archive(store, key_of('1'), data, 5_L, ierr)
        call esker_flush(store, ierr)
        call esker_purge(store, [esker_pair ::], removed, ierr, doit=.true.)
        call is(ierr, 0, 'purge')
        call holds(removed%masked == 1 .and. removed%bytes == 5, 'a purged field')
        call esker_wipe(store, key_of('1'), removed, ierr)
        call is(ierr, 0, 'count for a wipe')
        call esker_wipe(store, key_of('1'), removed, ierr, doit=.true.)
        call is(ierr, 0, 'wipe')
        call holds(removed%fields == 1 .and. removed%masked == 0, 'a wiped field')
        call esker_size(store, key_of('1'), bytes, ierr)
        call is(ierr, MISSING, 'size of a wiped field')
        call holds(index(esker_text(), 'step=1') > 0, 'the text names the field')
        call esker_archive(store, key_of('1'), data, 5_L, ierr)
        call esker_fields_close(store, ierr, discard=.true.)
        call is(ierr, 0, 'close and discard')
        call esker_flush(store, ierr)
        call is(ierr, NO_HANDLE, 'flush a closed store')
    end subroutine

    function key_of(steps) result(key)
        character(len=*), intent(in) :: steps
        type(esker_pair), allocatable :: key(:)

        key = [esker_pair('run', 'a'), esker_pair('type', 'fc'), esker_pair('step', steps)]
    end function

    subroutine test_tensors()
        type(esker_handle) :: store, put, joined, tensor
        character(len=ESKER_TOKEN_LENGTH) :: token
        character(len=:), allocatable :: dtype
        integer(L), allocatable :: shape(:)
        integer(L) :: bytes, item
        integer(c_int32_t) :: whole(4, 3), found(4, 3)
        integer :: i

        whole = reshape([(i, i=1, 12)], [4, 3])
        call esker_tensors_open(container, store, ierr, create=.true.)
        call is(ierr, 0, 'open')
        call esker_begin(store, '<i4', [4_L, 3_L], put, ierr, chunks=[2_L])
        call is(ierr, INVALID, 'chunks of another number of dimensions')
        call esker_begin(store, '<i4', [4_L, 3_L], put, ierr, chunks=[2_L, 3_L])
        call is(ierr, 0, 'begin')
        call esker_token(put, token, ierr)
        call is(ierr, 0, 'token')
        call esker_join(store, token, joined, ierr)
        call is(ierr, 0, 'join')
        call esker_write(joined, [1_L, 1_L], [4_L, 3_L], whole, 44_L, ierr)
        call is(ierr, INVALID, 'bytes that do not agree')
        call esker_write(joined, [1_L], [4_L, 3_L], whole, 48_L, ierr)
        call is(ierr, INVALID, 'a start that does not agree')
        call esker_write(joined, [1_L, 1_L], [4_L, 3_L], whole, 48_L, ierr)
        call is(ierr, 0, 'write')
        call esker_open(store, token, tensor, ierr)
        call is(ierr, MISSING, 'open before the commit')
        call esker_commit(put, 'a', ierr)
        call is(ierr, 0, 'commit')
        call esker_abort(joined, ierr)
        call is(ierr, ALREADY, 'abort after the commit')
        call esker_put_close(joined, ierr)
        call esker_put_close(put, ierr)
        call is(ierr, 0, 'close a PUT')
        call esker_rename(store, 'a', 'b', ierr)
        call is(ierr, 0, 'rename')
        call esker_open(store, 'b', tensor, ierr)
        call is(ierr, 0, 'open')
        call esker_describe(tensor, shape, dtype, item, ierr)
        call is(ierr, 0, 'describe')
        call holds(all(shape == [4_L, 3_L]) .and. dtype == '<i4' .and. item == 4, 'a description')
        bytes = 48
        call esker_get(tensor, found, bytes, ierr)
        call is(ierr, 0, 'get')
        call holds(all(found == whole), 'a whole tensor')
        call esker_get(tensor, found, bytes, ierr, start=[1_L, 1_L])
        call is(ierr, INVALID, 'a start without a count')
        call esker_get(tensor, found, bytes, ierr, start=[0_L, 1_L], count=[1_L, 1_L])
        call is(ierr, INVALID, 'a start before the first index')
        call esker_close(tensor, ierr)
        call is(ierr, 0, 'close a tensor')
        call esker_remove(store, 'b', ierr)
        call is(ierr, 0, 'remove')
        call esker_put(store, '<i4', [4_L, 3_L], whole, 48_L, 'c', ierr)
        call is(ierr, 0, 'put')
        call esker_begin(store, '<i4', [4_L], put, ierr)
        call esker_abort(put, ierr)
        call is(ierr, 0, 'abort')
        call esker_put_close(put, ierr)
        call esker_tensors_close(store, ierr)
        call is(ierr, 0, 'close')
    end subroutine
end program
