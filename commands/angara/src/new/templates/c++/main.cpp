/* Each PE puts its number into a variable of the next PE. */
#include <shmem.h>

#include <iostream>
#include <string>

/* OpenSHMEM, as long as this object lives. */
struct Job {
    Job() { shmem_init(); }
    ~Job() { shmem_finalize(); }
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;

    int me() const { return shmem_my_pe(); }
    int pes() const { return shmem_n_pes(); }
};

static int from; /* symmetric: every PE has one, and others may write it */

int main()
{
    Job job;
    shmem_int_p(&from, job.me(), (job.me() + 1) % job.pes());
    shmem_barrier_all();
    /* One string: output of other PEs does not come between its parts. */
    std::cout << "PE " + std::to_string(job.me()) + " of " + std::to_string(job.pes()) + " has heard from PE " +
                     std::to_string(from) + "\n";
    return from != (job.me() + job.pes() - 1) % job.pes();
}
