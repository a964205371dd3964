! SPDX-License-Identifier: Apache-2.0
!
! Archives fields of a forecast, lists them and reads them back; then stores a tensor and reads a part of it.
! Python reads both: esker.FieldStore('POOL/FIELDS') and esker.TensorStore('POOL/TENSORS')['t2m'].
!
! compile: gfortran "$(pkg-config --variable=fortran_source esker)" fields.f90 -o fields $(pkg-config --libs esker)
!
! usage: fields POOL FIELDS TENSORS
program fields
    use esker
    use, intrinsic :: iso_c_binding
    implicit none
    integer, parameter :: COLUMNS = 6, ROWS = 4, STEPS = 3
    type(esker_container) :: container
    character(len=256) :: pool, names(2)
    character(len=:), allocatable :: message
    integer :: ierr, at

    if (command_argument_count() /= 3) error stop 'usage: fields POOL FIELDS TENSORS'
    call get_command_argument(1, pool)
    do at = 1, 2
        call get_command_argument(at + 1, names(at))
        call esker_connect(pool, names(at), .true., container, ierr, message)
        if (ierr /= 0) call stop_with(message)
        if (at == 1) call store_fields(container)
        if (at == 2) call store_tensor(container)
        call esker_disconnect(container, ierr)
    end do

contains

    !> Ends the program with a message.
    subroutine stop_with(text)
        use, intrinsic :: iso_fortran_env, only: error_unit
        character(len=*), intent(in) :: text

        write (error_unit, '(a)') text
        error stop
    end subroutine

    !> Ends the program if a call on a store failed.
    subroutine check(ierr, doing)
        integer, intent(in) :: ierr
        character(len=*), intent(in) :: doing

        if (ierr /= 0) call stop_with(doing // ': ' // esker_text())
    end subroutine

    !> The key of the field of a step.
    function key_of(step) result(key)
        integer, intent(in) :: step
        type(esker_pair), allocatable :: key(:)
        character(len=8) :: text

        write (text, '(i0)') step
        key = [esker_pair('run', 'a'), esker_pair('type', 'fc'), esker_pair('step', trim(text))]
    end function

    !> Archives a field for each step, reads one back, and lists all. Step 7 does not exist: its error is printed.
    subroutine store_fields(container)
        type(esker_container), intent(in) :: container
        type(esker_handle) :: store, selection
        real(c_double) :: values(COLUMNS, ROWS), found(COLUMNS, ROWS)
        character(len=:), allocatable :: key
        integer(c_int64_t) :: bytes, count, number
        integer :: step

        call esker_fields_open(container, store, ierr, schema='[run [type [step: Integer]]]', create=.true.)
        call check(ierr, 'opening the field store')
        do step = 0, 6 * (STEPS - 1), 6
            values = step
            call esker_archive(store, key_of(step), values, 8_c_int64_t * size(values), ierr)
            call check(ierr, 'archiving')
        end do
        call esker_flush(store, ierr)
        call check(ierr, 'flushing')
        bytes = 8 * size(found)
        call esker_retrieve(store, key_of(6), found, bytes, ierr)
        call check(ierr, 'retrieving')
        if (bytes /= 8 * size(found) .or. any(abs(found - 6) > 0)) call stop_with('the field of step 6 differs')
        call esker_list(store, [esker_pair('run', 'a')], selection, count, ierr)
        call check(ierr, 'listing')
        do number = 1, count
            call esker_entry(selection, number, key, bytes, ierr)
            call check(ierr, 'listing')
            print '(a, ": ", i0, " bytes")', key, bytes
        end do
        call esker_selection_close(selection, ierr)
        call esker_retrieve(store, key_of(7), found, bytes, ierr)
        print '("step 7: ", a)', esker_text()
        call esker_fields_close(store, ierr)
        call check(ierr, 'closing the field store')
    end subroutine

    !> Stores a tensor column by column, and reads a part of it.
    subroutine store_tensor(container)
        type(esker_container), intent(in) :: container
        type(esker_handle) :: store, put, tensor
        integer(c_int64_t) :: shape(2), bytes
        real(c_float) :: column(ROWS), part(3, 2)
        integer :: i, j

        shape = [ROWS, COLUMNS]
        call esker_tensors_open(container, store, ierr, create=.true.)
        call check(ierr, 'opening the tensor store')
        call esker_begin(store, '<f4', shape, put, ierr)
        call check(ierr, 'beginning')
        do j = 1, COLUMNS
            column = [(real(10 * j + i, c_float), i=1, ROWS)]
            call esker_write(put, [1_c_int64_t, int(j, c_int64_t)], [shape(1), 1_c_int64_t], column, &
                             4_c_int64_t * ROWS, ierr)
            call check(ierr, 'writing')
        end do
        call esker_commit(put, 't2m', ierr)
        call check(ierr, 'committing')
        call esker_put_close(put, ierr)
        call esker_open(store, 't2m', tensor, ierr)
        call check(ierr, 'opening')
        bytes = 4 * size(part)
        call esker_get(tensor, part, bytes, ierr, start=[2_c_int64_t, 1_c_int64_t], count=[3_c_int64_t, 2_c_int64_t], &
                       step=[1_c_int64_t, 5_c_int64_t])
        call check(ierr, 'reading')
        print '("t2m:", 6(1x, f4.1))', part
        call esker_close(tensor, ierr)
        call esker_tensors_close(store, ierr)
        call check(ierr, 'closing the tensor store')
    end subroutine
end program
