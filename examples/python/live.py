"""Draw the latest step of a forecast repeatedly while a model, here another process, archives it.

    python live.py POOL/CONTAINER [PLOT.png]

The pool must be a native one, not `memory:`. Needs numpy, xarray and ecCodes with its samples
(Debian: libeccodes0 libeccodes-data); the plot needs matplotlib.
"""

import multiprocessing
import sys

import forecast

import esker

STEPS = range(0, 49, 6)


def model(name):
    """Archive step by step; each step becomes visible when it is flushed."""
    points = forecast.grid(2.0)
    with esker.FieldStore(name) as store:
        for step in STEPS:
            for pressure in forecast.LEVELS:
                store.archive(forecast.message(points, forecast.TEMPERATURE, step, 1, pressure))
            store.flush()


def draw(steps, means, path):
    """Draw the mean temperature of each available step."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3))
    axes.plot(steps, means, "o-")
    axes.set(xlabel="step in hours", ylabel="mean temperature at 850 hPa in K")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def main(name, path="live.png"):
    """Watch the store, and draw whenever a field arrives."""
    watch = esker.FieldStore(name).watch({"param": 130, "levelist": 850}, timeout=60)
    running = multiprocessing.get_context("spawn").Process(target=model, args=(name,))
    running.start()
    steps, means = [], []
    for field in watch:
        steps.append(int(field.key["step"]))
        means.append(field.values.mean())
        print(f"step {steps[-1]}: {means[-1]:.2f} K on average", flush=True)
        draw(steps, means, path)
        if steps[-1] == STEPS[-1]:
            break
    running.join()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
