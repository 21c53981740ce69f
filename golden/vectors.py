"""Makes the arrays in `vectors/` for the tests of the readers of vectors, written by NumPy. Run it without arguments."""

import gzip
import io
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "vectors"


def saved(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def main():
    FOLDER.mkdir(exist_ok=True)

    def write(name, array, version=None):
        data = saved(np.asarray(array), version)
        (FOLDER / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)

    # Multiples of a half from -2 to 3.5, exact in every type of float, and twice as large in every type of integer.
    x = (np.arange(12) / 2 - 2).reshape(2, 3, 2)
    for kind in ["<f4", "<f8"]:
        write(f"x-{kind[1:]}.npy", x.astype(kind))
    write("x-fortran.npy", np.asfortranarray(x))
    write("x-version2.npy", x.astype("<f4"), (2, 0))
    write("x-version3.npy", x.astype("<f4"), (3, 0))
    write("x-packed.npy.gz", x.astype("<f4"))
    for kind in ["<i2", "<i4", "<i8", "|i1"]:
        write(f"x-{kind[1:]}.npy", (2 * x).astype(kind))
    write("x-flat.npy", x.reshape(2, 6).astype("<f4"))
    write("x-unsigned.npy", np.array([[0, 255], [1, 128]], "u1"))

    # Targets. `y-f4.npy` belongs to `x-f4.npy`.
    write("y-f4.npy", np.array([-1, 9_007_199_254_740_993], "<i8"))
    write("y-f8.npy", np.array([0.25, -1.5], "<f8"))
    write("y-fortran.npy", np.array(["a", "ünïcode 🖋"]))
    write("y-version2.npy", np.asfortranarray(np.array([[0, 1, 2], [3, 4, 5]], "<u2")))
    write("y-packed.npy", np.array([[0.5, 1, 2], [3, 4, 5]], "<f4"))
    write("y-flat.npy", np.array([True, False]))

    # Refused.
    write("big-endian.npy", x.astype(">f4"))
    write("half.npy", x.astype("<f2"))
    write("complex.npy", x.astype("<c8"))
    write("structured.npy", np.zeros((2, 3), [("a", "<f4"), ("b", "<i4")]))
    file = io.BytesIO()
    np.save(file, np.array([[1, "a"], [None, 2]], object), allow_pickle=True)
    (FOLDER / "object.npy").write_bytes(file.getvalue())
    write("empty.npy", np.zeros((2, 0, 3), "<f4"))
    write("scalar.npy", np.float32(1))
    write("nan.npy", np.array([[1, 2], [3, np.nan]], "<f4"))
    write("text.npy", np.array([["a", "b"]]))


if __name__ == "__main__":
    main()
