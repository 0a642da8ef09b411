/* Heat in a plate, in C++: a job, its teams and its symmetric memory are objects, which give back what they hold.
 *
 * The PEs stand in a grid. Each has a tile of the plate with a halo of one cell around it. In a step a PE puts its
 * outermost cells into the halos of its neighbours; the largest change over all PEs (a reduction) says when to stop.
 * At the end every PE computes the whole plate alone and compares.
 *
 *     oshc++ -O2 heat.cpp -o heat && angara run -n 6 ./heat [CELLS [STEPS]]
 *
 * CELLS is the length of a tile's edge.
 */
#include <shmem.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

/* OpenSHMEM, as long as this object lives. */
class Job {
public:
    Job() { shmem_init(); }
    ~Job() { shmem_finalize(); }
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;

    int me() const { return shmem_my_pe(); }
    int pes() const { return shmem_n_pes(); }
    void barrier() const { shmem_barrier_all(); }

    /* Ends all PEs. An exception would be no way out: destructors call shmem_free, which waits for all PEs. */
    [[noreturn]] static void fail(const char *why)
    {
        std::fprintf(stderr, "PE %d: %s\n", shmem_my_pe(), why);
        shmem_global_exit(1);
        std::abort(); /* not reached; shmem.h need not say so */
    }
};

/* An array that every PE has, of the same length. All PEs make it, and all destroy it, at the same point. */
template <typename T> class Symmetric {
    static_assert(std::is_trivially_copyable<T>::value, "the network copies bytes");

public:
    explicit Symmetric(std::size_t size) : data_(static_cast<T *>(shmem_calloc(size, sizeof(T)))), size_(size)
    {
        if (!data_)
            Job::fail("the symmetric heap is too small; use --heap");
    }
    ~Symmetric() { shmem_free(data_); }
    Symmetric(const Symmetric &) = delete;
    Symmetric &operator=(const Symmetric &) = delete;

    T &operator[](std::size_t i) { return data_[i]; }
    T *data() { return data_; }
    std::size_t size() const { return size_; }
    void swap(Symmetric &other)
    {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }

    /* Copies `count` elements, `stride` apart, from here to another place of this array on `pe`. */
    void put(std::size_t to, std::size_t from, std::size_t stride, std::size_t count, int pe)
    {
        if (stride == 1)
            shmem_putmem(data_ + to, data_ + from, count * sizeof(T), pe);
        else
            for (std::size_t i = 0; i < count; i++)
                shmem_putmem_nbi(data_ + to + i * stride, data_ + from + i * stride, sizeof(T), pe);
    }

private:
    T *data_;
    std::size_t size_;
};

/* Some of the PEs, in an order of their own. */
class Team {
public:
    /* All PEs in rows of `width`: this PE's row and its column. */
    static std::pair<Team, Team> rows_and_columns(int width)
    {
        shmem_team_t row, column;
        if (shmem_team_split_2d(SHMEM_TEAM_WORLD, width, nullptr, 0, &row, nullptr, 0, &column) != 0)
            Job::fail("there are no teams of rows and columns");
        return {Team(row), Team(column)};
    }
    ~Team()
    {
        if (team_ != SHMEM_TEAM_INVALID)
            shmem_team_destroy(team_);
    }
    Team(Team &&other) : team_(std::exchange(other.team_, SHMEM_TEAM_INVALID)) {}
    Team &operator=(Team &&) = delete;

    int me() const { return shmem_team_my_pe(team_); }
    int pes() const { return shmem_team_n_pes(team_); }
    /* The number in the job of the PE `distance` further on, or -1 where the team ends. */
    int neighbour(int distance) const
    {
        int pe = me() + distance;
        return pe < 0 || pe >= pes() ? -1 : shmem_team_translate_pe(team_, pe, SHMEM_TEAM_WORLD);
    }

private:
    explicit Team(shmem_team_t team) : team_(team) {}
    shmem_team_t team_;
};

/* One step for a plate of `rows` times `columns` with a halo around it. Returns the largest change. */
static double step(double *next, const double *now, std::size_t rows, std::size_t columns)
{
    std::size_t width = columns + 2;
    double change = 0;
    for (std::size_t r = 1; r <= rows; r++)
        for (std::size_t c = 1; c <= columns; c++) {
            const double *at = now + r * width + c;
            double is = 0.25 * (at[-1] + at[1] + *(at - width) + at[width]);
            change = std::max(change, std::fabs(is - *at));
            next[r * width + c] = is;
        }
    return change;
}

/* The halos at the plate's edges: 100 degrees along the left one, 50 along the top. */
static void heat_edges(double *plate, std::size_t rows, std::size_t columns, bool left, bool top)
{
    std::size_t width = columns + 2;
    for (std::size_t c = 1; top && c <= columns; c++)
        plate[c] = 50;
    for (std::size_t r = 1; left && r <= rows; r++)
        plate[r * width] = 100;
}

/* The outermost cells of a square tile go into the neighbours' halos. */
static void exchange(Symmetric<double> &tile, std::size_t cells, const Team &row, const Team &column)
{
    std::size_t width = cells + 2, last = cells * width;
    if (int pe = column.neighbour(-1); pe >= 0)
        tile.put(last + width + 1, width + 1, 1, cells, pe);
    if (int pe = column.neighbour(1); pe >= 0)
        tile.put(1, last + 1, 1, cells, pe);
    if (int pe = row.neighbour(-1); pe >= 0)
        tile.put(width + cells + 1, width + 1, width, cells, pe);
    if (int pe = row.neighbour(1); pe >= 0)
        tile.put(width, width + cells, width, cells, pe);
}

/* The largest of all PEs' values. */
static double maximum(Symmetric<double> &all, Symmetric<double> &mine, double value)
{
    mine[0] = value;
    shmem_double_max_reduce(SHMEM_TEAM_WORLD, all.data(), mine.data(), 1);
    return all[0];
}

/* The whole plate after `steps` steps, without a network. */
static std::vector<double> alone(std::size_t rows, std::size_t columns, int steps)
{
    std::vector<double> now((rows + 2) * (columns + 2)), next;
    heat_edges(now.data(), rows, columns, true, true);
    next = now;
    for (int i = 0; i < steps; i++) {
        step(next.data(), now.data(), rows, columns);
        now.swap(next);
    }
    return now;
}

int main(int argc, char **argv)
{
    Job job;
    int edge = argc > 1 ? std::atoi(argv[1]) : 24, steps = argc > 2 ? std::atoi(argv[2]) : 200;
    if (edge < 1 || steps < 1)
        Job::fail("usage: heat [CELLS [STEPS]]");
    std::size_t cells = edge;

    int across = static_cast<int>(std::sqrt(job.pes()));
    while (job.pes() % across != 0)
        across--;
    auto [row, column] = Team::rows_and_columns(across);

    Symmetric<double> now((cells + 2) * (cells + 2)), next(now.size()), change(1), largest(1);
    for (Symmetric<double> *tile : {&now, &next})
        heat_edges(tile->data(), cells, cells, row.me() == 0, column.me() == 0);
    job.barrier();

    int done = 0;
    double last = 1;
    while (done < steps && last > 1e-3) {
        exchange(now, cells, row, column);
        job.barrier(); /* all halos have come */
        last = maximum(largest, change, step(next.data(), now.data(), cells, cells));
        now.swap(next);
        done++;
        job.barrier(); /* nobody puts into a tile that is still being read */
    }

    std::size_t columns = cells * row.pes(), rows = cells * column.pes();
    std::vector<double> whole = alone(rows, columns, done);
    double off = 0;
    for (std::size_t r = 1; r <= cells; r++)
        for (std::size_t c = 1; c <= cells; c++) {
            double is = whole[(column.me() * cells + r) * (columns + 2) + row.me() * cells + c];
            off = std::max(off, std::fabs(is - now[r * (cells + 2) + c]));
        }
    off = maximum(largest, change, off);
    if (job.me() == 0)
        std::printf("heat: %zu x %zu cells on %d x %d PEs, %d steps, last change %.6f, off by %.1e\n", rows, columns,
                    column.pes(), row.pes(), done, last, off);
    return off < 1e-9 ? 0 : 1;
}
