# A timer of Python's interrupts what the program does, at virtual times.
import signal
import time

rung = []


def ring(signal_number, frame):
    rung.append(round(time.monotonic() - begin, 4))


signal.signal(signal.SIGALRM, ring)
begin = time.monotonic()
signal.setitimer(signal.ITIMER_REAL, 0.25, 0.5)
time.sleep(1.5)
print("sleep", round(time.monotonic() - begin, 4), rung)
signal.setitimer(signal.ITIMER_REAL, 0)
signal.alarm(3)
signal.pause()
print("pause", rung[-1])


class Late(Exception):
    pass


def late(signal_number, frame):
    raise Late


signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    while True:
        time.time()
except Late:
    print("late")
