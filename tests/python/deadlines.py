# Waits of Python with a limit, answered by a thread that computes first, and not answered at all.
import queue
import threading
import time


def compute():
    return sum(range(2000000))


def say(what, answered, begin):
    print(what, "answered" if answered else "timed out", "after", int(round((time.monotonic() - begin) * 10)))


def get(items, limit):
    try:
        return items.get(timeout=limit)
    except queue.Empty:
        return None


for answered in (True, False):
    limit = 10 if answered else 1.5
    event, items, lock = threading.Event(), queue.Queue(), threading.Lock()
    lock.acquire()
    ways = [
        ("event", event.set, lambda: event.wait(limit)),
        ("queue", lambda: items.put(1), lambda: get(items, limit)),
        ("lock", lock.release, lambda: lock.acquire(timeout=limit)),
    ]
    for what, answer, wait in ways:
        thread = threading.Thread(target=lambda: (compute(), answer()) if answered else None)
        thread.start()
        begin = time.monotonic()
        say(what, wait(), begin)
        thread.join()
