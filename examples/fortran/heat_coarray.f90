! Heat in a plate, in Fortran with coarrays. The images stand in a row, each with some columns of the
! plate and a column of its neighbours' at either side. In a step every image puts its outermost
! columns into its neighbours' plates; the largest change over all images says when to stop. At the
! end every image computes the whole plate alone and compares.
!
! gfortran's coarrays are calls of OpenCoarrays, which sends by MPI:
!
!     caf -O2 heat_coarray.f90 -o heat_coarray && angara run -n 4 ./heat_coarray
!
program heat_coarray
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none

  integer, parameter :: rows = 48, columns = 16, steps = 300 ! columns are those of each image
  real(real64) :: now(0:rows + 1, 0:columns + 1)[*], next(0:rows + 1, 0:columns + 1)
  integer :: me, images, done
  real(real64) :: change, off

  me = this_image()
  images = num_images()
  now = 0
  if (me == 1) now(:, 0) = 100 ! the plate's left edge
  next = now
  do done = 1, steps
    sync all ! nobody puts into a plate that is still being read
    if (me > 1) now(1:rows, columns + 1)[me - 1] = now(1:rows, 1)
    if (me < images) now(1:rows, 0)[me + 1] = now(1:rows, columns)
    sync all ! all columns have come
    change = step(next, now)
    now(1:rows, 1:columns) = next(1:rows, 1:columns)
    call co_max(change)
    if (change < 1e-3_real64) exit
  end do
  done = min(done, steps)

  off = distance(now)
  call co_max(off)
  if (me == 1) print '(a, i0, a, i0, a, i0, a, i0, a, es8.1)', 'heat_coarray: ', rows, ' x ', &
    columns * images, ' cells on ', images, ' images, ', done, ' steps, off by', off
  if (off > 1e-9_real64) error stop 1

contains

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

  ! How far this image's part is from the same computed alone.
  function distance(part) result(largest)
    real(real64), intent(in) :: part(0:, 0:)
    real(real64) :: largest, ignored
    real(real64), allocatable :: whole(:, :), other(:, :)
    integer :: i, first
    allocate (whole(0:rows + 1, 0:columns * images + 1), source=0.0_real64)
    whole(:, 0) = 100
    other = whole
    do i = 1, done
      ignored = step(other, whole)
      whole(1:rows, 1:columns * images) = other(1:rows, 1:columns * images)
    end do
    first = (me - 1) * columns
    largest = maxval(abs(whole(1:rows, first + 1:first + columns) - part(1:rows, 1:columns)))
  end function distance
end program heat_coarray
