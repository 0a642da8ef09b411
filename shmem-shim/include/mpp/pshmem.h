/* The directory of headers in SGI's library, deprecated since OpenSHMEM 1.1. */
#include "../pshmem.h"
