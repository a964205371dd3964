"""Draw the temperature above Reading repeatedly while a model, here another process, archives a forecast step by step.

    python live.py POOL/CONTAINER [PLOT.png]

The pool must be a native one, not `memory:`. Needs numpy, xarray and ecCodes with its samples
(Debian: libeccodes0 libeccodes-data); the plot needs matplotlib.
"""

import multiprocessing
import sys

import forecast

import esker

STEPS = range(0, 49, 6)
READING = (51.5, 359.0)


def model(name):
    """Archive step by step; each step becomes visible when it is flushed."""
    points = forecast.grid(2.0)
    with esker.FieldStore(name) as store:
        for step in STEPS:
            for pressure in forecast.LEVELS:
                store.archive(forecast.message(points, forecast.TEMPERATURE, step, 1, pressure))
            store.flush()


def above(place, field):
    """The value of a field at the point of its grid next to a place."""
    north, east = place
    return field.values[((field.latitudes - north) ** 2 + (field.longitudes - east) ** 2).argmin()]


def draw(steps, values, path):
    """Draw the temperature of each available step."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3))
    axes.plot(steps, values, "o-")
    axes.set(title="Temperature at 850 hPa above Reading", xlabel="step in hours", ylabel="K")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def main(name, path="live.png"):
    """Watch the store, and draw whenever a field arrives."""
    watch = esker.FieldStore(name).watch({"param": 130, "levelist": 850}, timeout=60)
    running = multiprocessing.get_context("spawn").Process(target=model, args=(name,))
    running.start()
    steps, values = [], []
    for field in watch:
        steps.append(int(field.key["step"]))
        values.append(above(READING, field))
        print(f"step {steps[-1]}: {values[-1]:.2f} K above Reading", flush=True)
        draw(steps, values, path)
        if steps[-1] == STEPS[-1]:
            break
    running.join()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
