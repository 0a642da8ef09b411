! Heat in a plate, in Fortran with MPI (module mpi_f08). The ranks stand in a row, each with some
! columns of the plate and a column of its neighbours' at either side. In a step every rank exchanges
! its outermost columns; the largest change over all ranks says when to stop. At the end every rank
! computes the whole plate alone and compares.
!
!     mpifort -O2 heat_mpi.f90 -o heat_mpi && angara run -n 4 ./heat_mpi
!
program heat_mpi
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  implicit none

  integer, parameter :: rows = 48, columns = 16, steps = 300 ! columns are those of each rank
  real(real64), allocatable :: now(:, :), next(:, :)
  type(MPI_Comm) :: line
  integer :: me, ranks, left, right, done
  real(real64) :: change, off

  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.false.], .true., line)
  call MPI_Comm_rank(line, me)
  call MPI_Cart_shift(line, 0, 1, left, right) ! MPI_PROC_NULL beyond the ends

  call start(now, columns)
  if (me > 0) now(:, 0) = 0 ! only the first rank has the hot edge
  next = now
  do done = 1, steps
    call exchange(now)
    change = step(next, now)
    call MPI_Allreduce(MPI_IN_PLACE, change, 1, MPI_DOUBLE_PRECISION, MPI_MAX, line)
    call swap(now, next)
    if (change < 1e-3_real64) exit
  end do
  done = min(done, steps)

  off = distance(now)
  call MPI_Allreduce(MPI_IN_PLACE, off, 1, MPI_DOUBLE_PRECISION, MPI_MAX, line)
  if (me == 0) print '(a, i0, a, i0, a, i0, a, i0, a, es8.1)', 'heat_mpi: ', rows, ' x ', &
    columns * ranks, ' cells on ', ranks, ' ranks, ', done, ' steps, off by', off
  if (off > 1e-9_real64) call MPI_Abort(MPI_COMM_WORLD, 1)
  call MPI_Finalize()

contains

  ! A plate of `width` columns between edges: 100 degrees along the left one, 0 along the others.
  subroutine start(plate, width)
    real(real64), allocatable, intent(out) :: plate(:, :)
    integer, intent(in) :: width
    allocate (plate(0:rows + 1, 0:width + 1), source=0.0_real64)
    plate(:, 0) = 100
  end subroutine start

  ! The outermost columns go to the neighbours, and theirs come.
  subroutine exchange(plate)
    real(real64), intent(inout) :: plate(0:, 0:)
    call MPI_Sendrecv(plate(1:rows, columns), rows, MPI_DOUBLE_PRECISION, right, 1, &
      plate(1:rows, 0), rows, MPI_DOUBLE_PRECISION, left, 1, line, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(plate(1:rows, 1), rows, MPI_DOUBLE_PRECISION, left, 2, &
      plate(1:rows, columns + 1), rows, MPI_DOUBLE_PRECISION, right, 2, line, MPI_STATUS_IGNORE)
  end subroutine exchange

  ! One step. Returns the largest change.
  function step(new, old) result(largest)
    real(real64), intent(inout) :: new(0:, 0:)
    real(real64), intent(in) :: old(0:, 0:)
    real(real64) :: largest
    integer :: width
    width = ubound(old, 2) - 1
    new(1:rows, 1:width) = 0.25_real64 * (old(0:rows - 1, 1:width) + old(2:rows + 1, 1:width) &
      + old(1:rows, 0:width - 1) + old(1:rows, 2:width + 1))
    largest = maxval(abs(new(1:rows, 1:width) - old(1:rows, 1:width)))
  end function step

  subroutine swap(a, b)
    real(real64), allocatable, intent(inout) :: a(:, :), b(:, :)
    real(real64), allocatable :: c(:, :)
    call move_alloc(a, c)
    call move_alloc(b, a)
    call move_alloc(c, b)
  end subroutine swap

  ! How far this rank's part is from the same computed alone.
  function distance(part) result(largest)
    real(real64), intent(in) :: part(0:, 0:)
    real(real64) :: largest, ignored
    real(real64), allocatable :: whole(:, :), other(:, :)
    integer :: i, first
    call start(whole, columns * ranks)
    other = whole
    do i = 1, done
      ignored = step(other, whole)
      call swap(whole, other)
    end do
    first = me * columns
    largest = maxval(abs(whole(1:rows, first + 1:first + columns) - part(1:rows, 1:columns)))
  end function distance
end program heat_mpi
