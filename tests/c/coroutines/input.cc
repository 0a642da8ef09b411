// A character is put back to the input while other PEs look at theirs, which is empty.
#include <iostream>
#include <shmem.h>

int main() {
    shmem_init();
    int first = -1, second = -1;
    std::cin >> first;
    shmem_barrier_all();
    if (shmem_my_pe() == 0) std::cin.unget();
    shmem_barrier_all();
    std::cin >> second;
    std::cout << shmem_my_pe() << ": " << first << " " << second << " " << std::cin.eof() << std::endl;
    shmem_finalize();
}
