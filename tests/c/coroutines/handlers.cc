// Both PEs are in a handler of an exception of their own, and PE 0 leaves its first.
#include <cstdio>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <shmem.h>
#include <string>

struct Message {
    std::string text;
    ~Message() { text.assign(text.size(), '#'); }
};

int main() {
    shmem_init();
    int me = shmem_my_pe();
    std::time_t when = 86400 * me;
    std::tm *day = std::gmtime(&when);
    if (me == 0) std::cout << std::setfill('*') << std::hex;
    try {
        throw Message{"the message of PE " + std::to_string(me) + std::string(40, '.')};
    } catch (const Message &message) {
        shmem_barrier_all();
        if (me == 1) {
            shmem_barrier_all();
            printf("%s\n", message.text.c_str());
        }
    }
    if (me == 0) shmem_barrier_all();
    std::cout << "PE " << me << ": day " << day->tm_mday << ", " << std::setw(6) << 255 << std::endl;
    shmem_barrier_all();
    shmem_finalize();
}
