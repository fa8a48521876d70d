"""Scenes of python_frames.py with several threads: Python's own, C's, and one that has the GIL."""
import ctypes
import queue
import sys
import threading

from python_frames_shot import FREE, HELD, SIZE, buffer, check, frames_from, nested, parse, shot

CALLBACK = ctypes.CFUNCTYPE(None)
beside_gil = FREE.ebt_test_capture_beside_gil


def in_threads():
    found = []
    threads = [threading.Thread(target=lambda: found.append(nested(5))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(found)) == 1, "one stack, several sites"
    return found[0]


def busy_neighbours():
    stop = []

    def spin():
        while not stop:
            sum(range(100))

    threads = [threading.Thread(target=spin) for _ in range(3)]
    for t in threads:
        t.start()
    found = {shot() for _ in range(5)}
    stop.append(1)
    for t in threads:
        t.join()
    assert len(found) == 1
    return found.pop()


def while_another_has_the_gil():
    results = []

    def captures():
        b = buffer()
        used, want = beside_gil(b, SIZE), frames_from(sys._getframe())
        results.append(check(ctypes.string_at(b, used).decode(), want))

    FREE.ebt_test_prepare_holder()
    thread = threading.Thread(target=captures)
    thread.start()
    while not FREE.ebt_test_waits_for_holder():
        pass
    HELD.ebt_test_hold_gil()
    thread.join()
    return (results[0],)


def generator_handed_to_a_thread():
    def shots():
        while True:
            yield shot()

    generator, found = shots(), queue.Queue()
    next(generator)  # begun here, resumed there
    thread = threading.Thread(target=lambda: found.put(next(generator)))
    thread.start()
    thread.join()
    return found.get()


def on_a_thread_of_c():
    """As autograd's: Python is called from a thread that it did not make."""
    found = []
    FREE.ebt_test_call_on_new_thread(CALLBACK(lambda: found.append(nested(2))))
    return found[0]


def on_a_thread_of_c_several_times():
    found = []
    callback = CALLBACK(lambda: found.append(shot()))
    FREE.ebt_test_call_on_new_thread_twice(callback)
    assert len(found) == 2 and found[0] == found[1], found
    return found[0]


def without_python_frames(text):
    number, native, python = parse(text)
    assert python == [] and native, text
    return number


def threads_without_python_frames():
    """Before it has a thread state, with one and no frame, between frames, and afterwards."""
    found = []
    b = buffer()
    used = FREE.ebt_test_capture_around_callback(CALLBACK(lambda: found.append(shot())), b, SIZE)
    texts = ctypes.string_at(b, used).decode().split("--\n")
    assert len(texts) == 5 and texts[4] == "", texts
    numbers = [without_python_frames(text) for text in texts[:4]]
    return (found[0][0], *numbers)


def locals_of_threads_end():
    """Threads come and go; the frames of a new one may lie where an old one's did."""
    found = set()
    for i in range(40):
        thread = threading.Thread(target=lambda: found.add(nested(1 if i % 2 else 7)))
        thread.start()
        thread.join()
    assert len(found) == 2, found
    return (min(found)[0], max(found)[0])


SCENES = [
    in_threads, busy_neighbours, while_another_has_the_gil, generator_handed_to_a_thread,
    on_a_thread_of_c, on_a_thread_of_c_several_times, threads_without_python_frames,
    locals_of_threads_end,
]
