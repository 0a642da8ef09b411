#!/bin/sh
# What `cargo xtask deb --check` runs in a clean root: packages beside Debian's Open MPI are installed, used, upgraded while
# a daemon and a job run, and purged. Packages lie in /packages/old and /packages/new. Says what it does, and fails at once.
set -eu

say() { echo "-- $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
# Waits up to a minute for a condition; what is waited for, then the command that tells.
await() {
    what=$1; shift
    n=0
    until "$@"; do
        n=$((n + 1))
        [ $n -lt 600 ] || { tail -n 20 ./*.log >&2; fail "waited a minute for $what"; }
        sleep 0.1
    done
}
# Names of all files but those of the system that runs, of the packages that wait and of this script.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /packages -o -path /work \) -prune -o -print | sort
}
accounts() { cat /etc/passwd /etc/group; }
install() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 install "$@" </dev/null; }

export HOME=/work TMPDIR=/work
mkdir /work
cd /work
cat >hello.c <<'C'
#include <shmem.h>
#include <stdio.h>
int main(void) {
    static long seen;
    shmem_init();
    shmem_long_atomic_add(&seen, shmem_my_pe() + 1, 0);
    shmem_barrier_all();
    if (shmem_my_pe() == 0) printf("hello from %d PEs, sum %ld\n", shmem_n_pes(), seen);
    shmem_finalize();
    return 0;
}
C
# Goes on until the file `go` is there, and talks to its neighbour all the while.
cat >long.c <<'C'
#include <shmem.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    static long told, last, all;
    long rounds = 0, stop = 0;
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    while (!stop) {
        shmem_long_atomic_inc(&told, (me + 1) % n);
        if (me == 0 && access("go", F_OK) == 0)
            for (int pe = 1; pe <= n; pe++) shmem_long_p(&last, 1, pe % n);
        rounds++;
        if (me == 0 && rounds == 10) fclose(fopen("started", "w"));
        /* Read between two barriers, so that all PEs see the same. */
        shmem_barrier_all();
        stop = last;
        shmem_barrier_all();
        usleep(1000);
    }
    shmem_long_atomic_add(&all, told, 0);
    shmem_barrier_all();
    if (me == 0) printf("all rounds %s\n", all == n * rounds ? "arrived" : "did not arrive");
    shmem_finalize();
    return 0;
}
C
cat >mpi.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int me, n, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0) printf("MPI: %d ranks, sum %d\n", n, sum);
    MPI_Finalize();
    return 0;
}
C
cat >CMakeLists.txt <<'C'
cmake_minimum_required(VERSION 3.13)
project(use C)
find_package(OpenSHMEM 1.5 REQUIRED)
find_package(Angara 0.1 REQUIRED)
add_executable(hello hello.c)
target_link_libraries(hello OpenSHMEM::openshmem)
add_executable(driver /usr/share/angara/examples/c/driver.c)
target_link_libraries(driver Angara::angara)
C

dpkg -s openmpi-bin >/dev/null
oshcc --version >openmpi.before
fi_info >fabrics.before 2>&1 || true
files >files.before
accounts >accounts.before
dpkg -l | awk '{ print $2, $3 }' >dpkg.before

say "install beside $(dpkg-query -W openmpi-bin)"
install /packages/old/*.deb
dpkg -V angara libsma1 libangara1 libangara-dev
[ "$(id -gn angara)" = angara ] || fail "there is no user angara with a group of that name"
[ "$(stat -c '%U %G %a' /run/angara)" = "angara angara 750" ] || fail "/run/angara is not the daemon's"

say "Open MPI's commands are what they were"
oshcc --version | cmp - openmpi.before
mpicc mpi.c -o mpi
[ "$(dpkg -S /usr/bin/oshcc /usr/bin/oshc++ /usr/bin/oshrun | cut -d: -f1 | sort -u)" = openmpi-bin ]
oshcc hello.c -o hello.openmpi
ldd hello.openmpi | grep -q liboshmem || fail "Open MPI's oshcc links another library"
mpirun --allow-run-as-root --oversubscribe -n 2 ./mpi | grep "2 ranks, sum 1"

say "ours, under names of their own and under the usual ones"
oshcc.angara -O2 hello.c -o hello
oshrun.angara -q -n 4 --timeout 60 ./hello | grep "hello from 4 PEs, sum 10"
oshc++.angara -x c++ hello.c -o hello.cpp
oshrun.angara -q -n 2 --timeout 60 ./hello.cpp | grep "hello from 2 PEs, sum 3"
(PATH=/usr/lib/angara/bin:$PATH; oshcc hello.c -o usual; oshrun -q -n 3 --timeout 60 ./usual) | grep "from 3 PEs, sum 6"
ldd hello | grep libsma
# Only the libraries, as on a machine that runs programs without compiling any.
cc hello.c -lsma -o plain
env -i PATH=/usr/bin angara run -q -n 2 --timeout 60 ./plain | grep "hello from 2 PEs"
# shellcheck disable=SC2046 # words are what it is for
cc hello.c $(pkg-config --cflags --libs sma) -o by-pkg-config
readelf -d by-pkg-config | grep -q RUNPATH && fail "pkg-config's flags add a run path that nobody needs"
angara run -q -n 2 --timeout 60 ./by-pkg-config | grep "hello from 2 PEs"
# shellcheck disable=SC2046
cc hello.c $(PKG_CONFIG_PATH=/usr/lib/x86_64-linux-gnu/angara/pkgconfig pkg-config --cflags --libs oshmem) -o by-its-name
angara run -q -n 2 --timeout 60 ./by-its-name | grep "hello from 2 PEs"
cmake -S . -B build >/dev/null
cmake --build build >/dev/null
angara run -q -n 2 --timeout 60 build/hello | grep "hello from 2 PEs"
[ "$(angara run -q -n 2 --timeout 60 build/driver | grep -c ': ok')" = 2 ] || fail "the driver's example"
angara run -q -n 4 --timeout 60 --clock virtual ./hello | grep "hello from 4 PEs"
angara run -q -n 4 --timeout 60 --clock virtual --pes-as coroutines ./hello | grep "hello from 4 PEs"
angara run -q -n 2 --timeout 60 --report mpi.json ./mpi | grep "MPI: 2 ranks, sum 1"
angara doctor | grep -E "fabricd|angara-pes|libsma.so|shmem.h|MPI provider"
angara demo >demo.log || fail "angara demo: $(tail -5 demo.log)"
angara run -q -n 2 --path ring --capture x.pcapng --timeout 60 ./hello
[ "$(tshark -r x.pcapng -Y angara 2>/dev/null | wc -l)" -gt 0 ] || fail "tshark does not know the packets"
fi_info 2>&1 | cmp - fabrics.before || fail "fi_info says something else than without the packages"
man oshcc.angara | grep "Compile and link OpenSHMEM programs"

say "programs run without what it took to compile them"
dpkg --remove libangara-dev >/dev/null
oshrun.angara -q -n 4 --timeout 60 ./hello | grep "hello from 4 PEs, sum 10"
angara run -q -n 2 --timeout 60 ./plain | grep "hello from 2 PEs"
if angara demo >demo.log 2>&1; then fail "angara demo compiles without a compiler wrapper"; fi
grep "libangara-dev" demo.log || fail "angara demo does not say what is missing: $(cat demo.log)"
install /packages/old/libangara-dev_*.deb >/dev/null

say "upgrade while a daemon and a job run"
systemctl enable fabricd.socket fabricd.service >/dev/null 2>&1
[ -L /etc/systemd/system/sockets.target.wants/fabricd.socket ] || fail "fabricd.socket cannot be enabled"
echo '# a line of the administrator' >>/etc/angara/fabricd.toml
export ANGARA_RUNTIME_DIR=/run/angara
setpriv --reuid angara --regid angara --clear-groups fabricd --config /etc/angara/fabricd.toml --runtime-dir /run/angara \
    >daemon.log 2>&1 &
daemon=$!
await "the daemon" angara status >/dev/null 2>&1
oshcc.angara long.c -o long
angara run -q -n 4 --path ring ./long >long.log 2>&1 &
job=$!
await "the job to start" test -e started
before=$(readlink /proc/$daemon/exe)
install /packages/new/*.deb
[ "$(dpkg-query -Wf '${Version}\n' angara libsma1 libangara1 libangara-dev | sort -u)" = \
    "$(dpkg-deb -f /packages/new/angara_*.deb Version)" ] || fail "not everything was upgraded"
kill -0 $daemon || fail "the daemon did not live through the upgrade: $(cat daemon.log)"
kill -0 $job || fail "the job did not live through the upgrade: $(cat long.log)"
echo "   the daemon runs $before, now $(readlink /proc/$daemon/exe)"
oshrun.angara -q -n 2 --path ring --timeout 60 ./hello | grep "hello from 2 PEs" || fail "new commands, old daemon"
touch go
wait $job || fail "the job failed: $(cat long.log)"
grep "all rounds arrived" long.log || fail "the job: $(cat long.log)"
tail -1 /etc/angara/fabricd.toml | grep -q administrator || fail "the upgrade has lost the administrator's line"
kill -TERM $daemon
wait $daemon || fail "the daemon ended with $?: $(cat daemon.log)"
setpriv --reuid angara --regid angara --clear-groups fabricd --config /etc/angara/fabricd.toml --runtime-dir /run/angara \
    >daemon.log 2>&1 &
daemon=$!
await "the new daemon" angara status >/dev/null 2>&1
angara run -q -n 2 --path ring --timeout 60 ./hello | grep "hello from 2 PEs"
kill -TERM $daemon
wait $daemon || fail "the new daemon ended with $?: $(cat daemon.log)"
unset ANGARA_RUNTIME_DIR

say "remove, which keeps configuration, then purge"
apt-get -qq -o Dpkg::Use-Pty=0 remove angara libangara-dev libangara1 libsma1 </dev/null
[ -e /etc/angara/fabricd.toml ] || fail "remove has taken the configuration"
[ ! -e /usr/bin/angara ] || fail "remove has left the command"
dpkg --purge angara libangara-dev libangara1 libsma1 2>&1 | grep -v "isn't installed" || true
dpkg -l | awk '{ print $2, $3 }' | diff dpkg.before - || fail "other packages than before"
# The daemon's user and group stay, and nobody else has come or gone.
accounts | diff accounts.before - | grep '^[<>]' | cut -d: -f1 >accounts.differ || true
[ "$(cat accounts.differ)" = "> angara
> angara" ] || fail "accounts are not as before, but for angara: $(cat accounts.differ)"
# Logs and lists of the package manager, and copies that tools for accounts keep.
files | diff files.before - >files.differ || true
grep -E '^[<>]' files.differ | grep -vE ' (/var/(log|cache|lib/(dpkg|apt))/|/etc/(passwd|group|shadow|gshadow|subuid|subgid)-$)' &&
    fail "files are not as before"
oshcc --version | cmp - openmpi.before
say "nothing is left"
