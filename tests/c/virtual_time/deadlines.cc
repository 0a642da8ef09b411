// C++'s own waits with a limit, answered by a thread that computes first, and not answered at all.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <shmem.h>
#include <thread>

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

static void compute() {
    for (volatile long i = 0; i < 30000000; i = i + 1)
        ;
}

static void say(const char *what, bool answered, Clock::time_point begin) {
    long ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
    std::printf("%s: %s after %ld ms\n", what, answered ? "answered" : "timed out", ms);
}

int main() {
    shmem_init();
    for (bool answered : {true, false}) {
        auto limit = answered ? 10000ms : 1500ms;
        {
            std::mutex mutex;
            std::condition_variable changed;
            bool done = false;
            std::thread thread([&] {
                if (!answered)
                    return;
                compute();
                std::lock_guard<std::mutex> lock(mutex);
                done = true;
                changed.notify_one();
            });
            std::unique_lock<std::mutex> lock(mutex);
            auto begin = Clock::now();
            bool result = changed.wait_for(lock, limit, [&] { return done; });
            say("condition_variable", result, begin);
            lock.unlock();
            thread.join();
        }
        {
            std::promise<int> promise;
            auto future = promise.get_future();
            std::thread thread([&] {
                if (!answered)
                    return;
                compute();
                promise.set_value(1);
            });
            auto begin = Clock::now();
            auto status = future.wait_for(limit);
            say("future", status == std::future_status::ready, begin);
            thread.join();
        }
        {
            std::timed_mutex mutex;
            mutex.lock();
            std::thread thread([&] {
                auto begin = Clock::now();
                say("timed_mutex", mutex.try_lock_for(limit), begin);
            });
            if (answered) {
                compute();
                mutex.unlock();
            }
            thread.join();
        }
    }
    shmem_finalize();
    return 0;
}
