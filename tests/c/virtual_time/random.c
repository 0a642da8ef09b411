// Random numbers of the system, in each way.
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

int main(void) {
    shmem_init();
    uint64_t one = 0, two = 0;
    unsigned char few[3] = {0}, many[257];
    if (getrandom(&one, sizeof one, 0) != sizeof one || getentropy(&two, sizeof two) != 0 ||
        getrandom(few, sizeof few, GRND_NONBLOCK) != sizeof few || getentropy(many, sizeof many) != -1)
        return 1;
    for (int pe = 0; pe < shmem_n_pes(); pe++) {
        if (shmem_my_pe() == pe) {
            printf("%016llx %016llx %02x%02x%02x\n", (unsigned long long)one, (unsigned long long)two, few[0], few[1],
                   few[2]);
            fflush(stdout);
        }
        shmem_barrier_all();
    }
    shmem_finalize();
    return 0;
}
