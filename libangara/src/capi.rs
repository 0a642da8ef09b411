//! The C interface; see `include/angara.h`.
