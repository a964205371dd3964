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
    integer, parameter :: BUSY = -1012, TOO_BIG = -2013, TIMED_OUT = -1011, DIFFERENT = -1031, READ_ONLY = -1001
    type(esker_container) :: container
    type(esker_removed) :: removed_fields
    character(len=256) :: pool, label
    integer :: ierr

    call get_command_argument(1, pool)
    call get_command_argument(2, label)
    call esker_connect(pool, label, .true., container, ierr)
    call is(ierr, 0, 'connect')
    call test_fields()
    call test_found_fields()
    call test_events()
    call esker_disconnect(container, ierr)
    call is(ierr, 0, 'disconnect')
    call get_command_argument(3, label)
    call esker_connect(pool, label, .true., container, ierr)
    call is(ierr, 0, 'connect')
    call test_tensors()
    call test_attributes()
    call test_lists_and_snapshots()
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

    !> Axes, watches, views, parts and adopted files.
    subroutine test_found_fields()
        type(esker_handle) :: store, axes, watch, selection, view
        character(len=:), allocatable :: name, path, schema
        character(len=ESKER_VALUE_LENGTH), allocatable :: values(:)
        character(len=64) :: file
        integer(c_int8_t), pointer :: viewed(:)
        integer(c_int8_t) :: data(2000), part(3)
        integer(L) :: bytes, count, number, position, archived
        integer :: names, step, unit
        type(c_ptr) :: address

        call esker_fields_open(container, store, ierr)
        call is(ierr, 0, 'open')
        call esker_schema(store, schema, ierr)
        call holds(ierr == 0 .and. schema == '[run [type [step: Integer]]]', 'the schema')
        call esker_wipe(store, key_of('0/to/30'), removed_fields, ierr, doit=.true.)
        call esker_watch(store, [esker_pair('step', '6/12/18')], watch, ierr)
        call is(ierr, 0, 'watch')
        call esker_watch_next(watch, 1000_L, selection, count, ierr)
        call is(ierr, TIMED_OUT, 'watch without fields')
        do step = 6, 24, 6
            data = int(step, c_int8_t)
            write (file, '(i0)') step
            call esker_archive(store, key_of(file), data, size(data, kind=L), ierr)
            call is(ierr, 0, 'archive')
        end do
        call esker_pending(store, count, bytes, ierr)
        call holds(ierr == 0 .and. count == 4 .and. bytes == 8000, 'pending fields')
        call esker_flush(store, ierr)
        call esker_watch_next(watch, -1_L, selection, count, ierr)
        call is(ierr, 0, 'watch with fields')
        call holds(count == 3, 'watched fields')
        call esker_watch_close(watch, ierr)
        call is(ierr, 0, 'close a watch')
        call esker_read_at(selection, 2_L, 2000_L, part, 1_L, ierr)
        call is(ierr, 0, 'read a part')
        call holds(part(1) == 12, 'the last byte of a field')
        call esker_read_at(selection, 2_L, 2000_L, part, 2_L, ierr)
        call is(ierr, INVALID, 'read past the end of a field')
        call esker_location(selection, 3_L, archived, path, position, ierr)
        call holds(ierr == 0 .and. archived > 0 .and. path == '' .and. position == 1, 'the location of a stored field')
        call esker_view(selection, 3_L, view, address, bytes, ierr, in_place=.true.)
        if (ierr /= 0) call esker_view(selection, 3_L, view, address, bytes, ierr)
        call is(ierr, 0, 'view')
        call esker_selection_close(selection, ierr)
        call c_f_pointer(address, viewed, [bytes])
        call holds(bytes == 2000 .and. all(viewed == 18), 'viewed bytes')
        call esker_view_close(view, ierr)
        call is(ierr, 0, 'close a view')
        call esker_axes(store, [esker_pair('run', 'a')], axes, names, ierr)
        call is(ierr, 0, 'axes')
        call holds(names == 3, 'names of axes')
        call esker_axis(axes, 2, name, values, ierr)
        call is(ierr, 0, 'axis')
        call holds(name == 'step' .and. size(values) == 4, 'an axis')
        call holds(values(1) == '6' .and. values(4) == '24', 'values of an axis')
        call esker_axis(axes, 4, name, values, ierr)
        call is(ierr, INVALID, 'an axis past the end')
        call esker_axes_close(axes, ierr)
        call is(ierr, 0, 'close axes')
        write (file, '("/tmp/esker-", i0, ".bin")') archived
        open (newunit=unit, file=file, access='stream', status='replace')
        write (unit) 'header, data'
        close (unit)
        call esker_adopt(store, key_of('30'), file, 9_L, 5_L, ierr)
        call is(ierr, INVALID, 'adopt past the end of a file')
        call esker_adopt(store, key_of('30'), file, 9_L, 3_L, ierr)
        call is(ierr, 0, 'adopt')
        call esker_flush(store, ierr)
        call esker_select(store, key_of('30'), selection, count, ierr)
        number = 1
        bytes = size(part)
        call esker_read(selection, number, count, part, bytes, ierr)
        call is(ierr, 0, 'read an adopted field')
        call holds(all(part == [100_c_int8_t, 97_c_int8_t, 116_c_int8_t]), 'bytes of a file')
        call esker_location(selection, number, archived, path, position, ierr)
        call holds(ierr == 0 .and. path == file .and. position == 9, 'the location of an adopted field')
        call esker_selection_close(selection, ierr)
        open (newunit=unit, file=file)
        close (unit, status='delete')
        call esker_fields_close(store, ierr)
        call is(ierr, 0, 'close')
    end subroutine

    !> Calls that go on while the program does something else.
    subroutine test_events()
        type(esker_event), target :: events(4), none
        integer(c_int8_t), asynchronous :: data(5, 4), found(5)
        integer(L), asynchronous :: bytes
        type(esker_handle) :: store
        character(len=2) :: text
        logical :: completed
        integer :: step

        call esker_fields_open(container, store, ierr)
        call esker_wait(none, ierr)
        call is(ierr, INVALID, 'wait for an event without a call')
        do step = 1, 4
            data(:, step) = int(step, c_int8_t)
            write (text, '(i0)') step
            call esker_archive(store, key_of(text), data(:, step), 5_L, ierr, event=events(step))
            call is(ierr, 0, 'start to archive')
        end do
        do step = 1, 4
            call esker_wait(events(step), ierr)
            call is(ierr, 0, 'wait')
            call holds(esker_event_text(events(step)) == '', 'no text of an event')
        end do
        call esker_flush(store, ierr, event=events(1))
        completed = .false.
        do while (.not. completed)
            call esker_test(events(1), completed, ierr)
            call is(ierr, 0, 'test')
        end do
        found = 0
        bytes = 5
        call esker_retrieve(store, key_of('3'), found, bytes, ierr, event=events(2))
        call is(ierr, 0, 'start to retrieve')
        call esker_wait(events(2), ierr)
        call is(ierr, 0, 'retrieve')
        call holds(bytes == 5 .and. all(found == 3), 'a field that was retrieved with an event')
        call esker_retrieve(store, key_of('99'), found, bytes, ierr, event=none)
        call is(ierr, 0, 'start to retrieve a missing field')
        call esker_wait(none, ierr)
        call is(ierr, MISSING, 'retrieve a missing field')
        call holds(index(esker_event_text(none), 'step=99') > 0, 'the text of an event')
        call esker_fields_close(store, ierr)
        call is(ierr, 0, 'close')
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

    subroutine test_attributes()
        type(esker_handle) :: store, put, tensor
        type(esker_tensor_info) :: info
        character(len=:), allocatable :: text, name
        integer(L), allocatable :: longs(:)
        real(c_double), allocatable :: doubles(:)
        integer(L) :: long
        real(c_double) :: double
        logical :: is_set
        integer :: type

        call esker_tensors_open(container, store, ierr)
        call esker_begin(store, '|u1', [2_L, 3_L], put, ierr, chunks=[1_L, 3_L], &
                         attributes=[esker_attr('units  ', 'K '), esker_attr('member', 7), esker_attr('scale', 0.5), &
                                     esker_attr('long', 2_L**40), esker_attr('exact', 2.5d0), &
                                     esker_attr('good', .true.), esker_attr('levels', [1, 2]), &
                                     esker_attr('range', [0.d0, 1.d0])])
        call is(ierr, 0, 'begin with attributes')
        call esker_put_inquire(put, info, ierr)
        call is(ierr, 0, 'inquire about a PUT')
        call holds(all(info%shape == [2_L, 3_L]) .and. all(info%chunks == [1_L, 3_L]) .and. info%name == '', 'a PUT')
        call esker_write(put, [1_L, 1_L], [2_L, 3_L], [(int(type, c_int8_t), type=1, 6)], 6_L, ierr)
        call esker_commit(put, 'described', ierr)
        call is(ierr, 0, 'commit')
        call esker_put_close(put, ierr)
        call esker_open(store, 'described', tensor, ierr)
        call esker_inquire(tensor, info, ierr)
        call is(ierr, 0, 'inquire')
        call holds(info%name == 'described' .and. info%dtype == '|u1' .and. info%attributes == 8, 'a description')
        call holds(info%item == 1 .and. info%bytes == 6 .and. info%committed_ms > 0 .and. info%members == 0, 'numbers')
        call holds(len(info%uuid) == ESKER_TOKEN_LENGTH .and. all(info%chunks == [1_L, 3_L]), 'the UUID and chunks')
        call esker_get_attr(tensor, 'units', text, ierr)
        call holds(ierr == 0 .and. text == 'K', 'a text')
        call esker_get_attr(tensor, 'member', long, ierr)
        call holds(ierr == 0 .and. long == 7, 'an integer')
        call esker_get_attr(tensor, 'long', long, ierr)
        call holds(ierr == 0 .and. long == 2_L**40, 'a long integer')
        call esker_get_attr(tensor, 'scale', double, ierr)
        call holds(ierr == 0 .and. abs(double - 0.5) < 1e-9, 'a real')
        call esker_get_attr(tensor, 'exact', double, ierr)
        call holds(ierr == 0 .and. abs(double - 2.5) < 1e-9, 'a double')
        call esker_get_attr(tensor, 'member', double, ierr)
        call holds(ierr == 0 .and. abs(double - 7) < 1e-9, 'an integer as a real')
        call esker_get_attr(tensor, 'good', is_set, ierr)
        call holds(ierr == 0 .and. is_set, 'a logical')
        call esker_get_attr(tensor, 'levels', longs, ierr)
        call holds(ierr == 0 .and. all(longs == [1, 2]), 'integers')
        call esker_get_attr(tensor, 'range', doubles, ierr)
        call holds(ierr == 0 .and. size(doubles) == 2 .and. abs(doubles(2) - 1) < 1e-9, 'reals')
        call esker_get_attr(tensor, 'levels', doubles, ierr)
        call holds(ierr == 0 .and. size(doubles) == 2 .and. abs(doubles(2) - 2) < 1e-9, 'integers as reals')
        call esker_get_attr(tensor, 'units', long, ierr)
        call is(ierr, DIFFERENT, 'a text as an integer')
        call esker_get_attr(tensor, 'absent', text, ierr)
        call is(ierr, MISSING, 'an absent attribute')
        call esker_attr_name(tensor, 8, name, type, ierr)
        call holds(ierr == 0 .and. name == 'units' .and. type == ESKER_ATTR_TEXT, 'the last attribute')
        call esker_attr_name(tensor, 3, name, type, ierr)
        call holds(ierr == 0 .and. name == 'levels' .and. type == ESKER_ATTR_LIST + ESKER_ATTR_INTEGER, 'a list')
        call esker_attr_name(tensor, 9, name, type, ierr)
        call is(ierr, INVALID, 'an attribute past the end')
        call esker_close(tensor, ierr)
        call esker_tensors_close(store, ierr)
        call is(ierr, 0, 'close')
    end subroutine

    subroutine test_lists_and_snapshots()
        type(esker_handle) :: store, list, snapshot, put
        type(esker_tensor_info) :: info
        type(esker_collected) :: collected
        integer(L) :: count, epoch

        call esker_tensors_open(container, store, ierr)
        call esker_snapshot_create(container, epoch, ierr)
        call is(ierr, 0, 'create a snapshot')
        call esker_remove(store, 'c', ierr)
        call is(ierr, 0, 'remove')
        call esker_tensors_list(store, list, count, ierr)
        call is(ierr, 0, 'list')
        call holds(count == 1, 'tensors after a removal')
        call esker_tensors_list_close(list, ierr)
        call esker_tensors_at(store, epoch, snapshot, ierr)
        call is(ierr, 0, 'open a snapshot')
        call esker_tensors_list(snapshot, list, count, ierr)
        call is(ierr, 0, 'list a snapshot')
        call holds(count == 2, 'tensors of a snapshot')
        call esker_tensors_entry(list, 1_L, info, ierr)
        call is(ierr, 0, 'entry')
        call holds(info%name == 'c' .and. all(info%shape == [4_L, 3_L]) .and. info%bytes == 48, 'an entry')
        call esker_tensors_entry(list, 3_L, info, ierr)
        call is(ierr, INVALID, 'an entry past the end')
        call esker_tensors_list_close(list, ierr)
        call is(ierr, 0, 'close a list')
        call esker_remove(snapshot, 'c', ierr)
        call is(ierr, READ_ONLY, 'remove in a snapshot')
        call esker_tensors_close(snapshot, ierr)
        call esker_snapshot_destroy(container, epoch, ierr)
        call is(ierr, 0, 'destroy a snapshot')
        call esker_tensors_at(store, epoch, snapshot, ierr)
        call is(ierr, MISSING, 'open a destroyed snapshot')
        call esker_begin(store, '<i4', [4_L], put, ierr)
        call esker_put_close(put, ierr)
        call esker_collect(store, 0_L, collected, ierr)
        call holds(ierr == 0 .and. collected%puts == 1, 'count of a collection')
        call esker_collect(store, 0_L, collected, ierr, doit=.true.)
        call holds(ierr == 0 .and. collected%puts == 1, 'a collection')
        call esker_tensors_close(store, ierr)
        call is(ierr, 0, 'close')
    end subroutine
end program
