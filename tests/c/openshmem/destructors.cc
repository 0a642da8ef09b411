// shmem_global_exit ends a C++ program as exit does: static destructors run, streams are flushed.
#include <fstream>
#include <iostream>
#include <shmem.h>

struct Static {
    ~Static() { std::cout << "destroyed" << std::endl; }
};
static Static object;

[[noreturn]] static void end() { shmem_global_exit(7); }

int main(int, char **argv)
{
    std::ios::sync_with_stdio(false);
    shmem_init();
    // Whoever opens the file later empties it.
    static std::ofstream file(shmem_my_pe() == 0 ? argv[1] : "/dev/null");
    if (shmem_my_pe() == 0) {
        file << "unflushed line in a file";
        std::cout << "unflushed line, ";
        end();
    }
    for (;;)
        shmem_barrier_all();
}
