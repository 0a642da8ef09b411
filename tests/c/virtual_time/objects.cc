// C++ on each PE: constructors and destructors of its own objects, exceptions, and streams.
#include <iostream>
#include <shmem.h>
#include <stdexcept>
#include <string>
#include <vector>

struct Noted {
    std::string name;
    Noted() : name("made") {}
    ~Noted() { std::cout << "unmade " << name << std::endl; }
};

static Noted noted;
static std::vector<long> found;
static long from[8];

static long checked(long n) {
    if (n % 2)
        throw std::runtime_error("odd: " + std::to_string(n));
    return n;
}

int main() {
    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes();
    for (int pe = 0; pe < pes; pe++)
        shmem_long_p(&from[me], 10 + me, pe);
    shmem_barrier_all();
    for (int pe = 0; pe < pes; pe++)
        try {
            found.push_back(checked(from[pe]));
        } catch (const std::exception &e) {
            std::cout << me << " caught " << e.what() << '\n';
        }
    noted.name += " " + std::to_string(me) + " " + std::to_string(found.size());
    shmem_finalize();
}
