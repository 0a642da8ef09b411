//! `libangara_mpi_41.so`: preloaded beside `libangara_mpi.so` where the MPI library has the calls of MPI 4.1.

use angara_mpi_calls::wrap;

wrap! {
    Waits {
        Buffer_flush(0) Comm_flush_buffer(1) Session_flush_buffer(1) Comm_detach_buffer(3) Session_detach_buffer(3)
        Comm_detach_buffer_c(3) Session_detach_buffer_c(3)
    }
    Looks {
        Request_get_status_all(4) Request_get_status_any(5) Request_get_status_some(5)
    }
    Starts {
        Buffer_iflush(1) Comm_iflush_buffer(2) Session_iflush_buffer(2)
    }
}
