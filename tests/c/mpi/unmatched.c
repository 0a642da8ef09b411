/* Rank 1 begins so many sends of 0 to so many bytes, all of them before rank 0 posts its first receive. Rank 0 then receives
 * them in a random order of tags and looks at every byte. Both say how much memory that took. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long long state;

/* splitmix64 */
static unsigned long long draw(unsigned long long x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* Few are large, so that many are injected and many are not; every second one is as large as may be. */
static int length(int i, int most)
{
    unsigned long long drawn = draw(i);
    return i % 2 == 0 ? most : (int)((drawn >> 8) % ((unsigned)most >> drawn % 12 | 1));
}

static long memory(void)
{
    char line[200];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "VmRSS: %ld", &kib);
    fclose(status);
    return kib;
}

int main(int argc, char **argv)
{
    int rank, count = atoi(argv[1]), most = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    state = strtoull(argv[3], NULL, 0);
    /* What message i consists of begins at byte i % 251 of it. */
    unsigned char *data = malloc(most + 251), *room = malloc(most);
    for (int i = 0; i < most + 251; i++)
        data[i] = (unsigned char)draw(i);
    MPI_Barrier(MPI_COMM_WORLD);
    long before = memory();
    if (rank == 1) {
        MPI_Request *all = malloc(count * sizeof *all);
        for (int i = 0; i < count; i++)
            MPI_Isend(data + i % 251, length(i, most), MPI_BYTE, 0, i, MPI_COMM_WORLD, &all[i]);
        MPI_Barrier(MPI_COMM_WORLD);
        printf("rank 1 keeps %ld KiB\n", memory() - before);
        MPI_Waitall(count, all, MPI_STATUSES_IGNORE);
    } else if (rank == 0) {
        int *order = malloc(count * sizeof *order);
        for (int i = 0; i < count; i++) {
            int other = (int)((state = draw(state)) % (i + 1));
            order[i] = order[other];
            order[other] = i;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        printf("rank 0 keeps %ld KiB\n", memory() - before);
        for (int i = 0; i < count; i++) {
            MPI_Status status;
            int tag = order[i], len;
            MPI_Recv(room, most, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &len);
            if (len != length(tag, most) || memcmp(room, data + tag % 251, len)) {
                printf("rank 0: message %d is wrong\n", tag);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        printf("rank 0 has received %d messages\n", count);
    }
    MPI_Finalize();
    return 0;
}
