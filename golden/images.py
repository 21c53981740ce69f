"""Makes the pictures in `images/` for the tests of the readers of pictures, with the pixels that Pillow reads from them. Run it
without arguments."""

import gzip
import json
import struct
from pathlib import Path

import numpy as np
from PIL import Image

FOLDER = Path(__file__).parent / "images"


def scene(height, width):
    """A smooth picture in colours with one sharp corner."""
    y, x = np.mgrid[0:height, 0:width]
    red = 127 + 120 * np.sin(x / 3.1) * np.cos(y / 4.3)
    green = 255 * y / max(height - 1, 1)
    blue = 255 * (x + y < (height + width) // 3)
    return np.stack([red, green, blue], -1).round().clip(0, 255).astype("u1")


def main():
    FOLDER.mkdir(exist_ok=True)
    expected = {}

    def expect(name, array):
        """Pixels as [channels, height, width] in hexadecimal."""
        array = np.asarray(array, "u1")
        planes = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
        expected[name] = {"size": list(planes.shape), "pixels": planes.tobytes().hex()}

    def over_white(image):
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")

    rgb = scene(15, 22)
    alpha = np.linspace(0, 255, 15 * 22).round().astype("u1").reshape(15, 22, 1)
    image = Image.fromarray(rgb)
    grey = image.convert("L")
    clear = Image.fromarray(np.concatenate([rgb, alpha], -1))
    palette = image.quantize(16)
    bits = grey.convert("1")

    image.save(FOLDER / "rgb.png")
    expect("rgb.png", image)
    expect("rgb.png in grey", grey)
    grey.save(FOLDER / "grey.png")
    expect("grey.png", grey)
    clear.save(FOLDER / "clear.png")
    expect("clear.png", over_white(clear))
    palette.save(FOLDER / "palette.png", transparency=0)
    expect("palette.png", over_white(Image.open(FOLDER / "palette.png")))
    bits.save(FOLDER / "bits.png")
    expect("bits.png", bits.convert("L"))
    Image.merge("LA", [grey, Image.fromarray(alpha[..., 0])]).save(FOLDER / "grey-clear.png")
    expect("grey-clear.png", over_white(Image.open(FOLDER / "grey-clear.png")).convert("L"))
    deep = (np.arange(15 * 22).reshape(15, 22) * 198).astype("u2")
    Image.fromarray(deep).save(FOLDER / "deep.png")
    expect("deep.png", deep >> 8)

    for name, options in {
        "colour.jpg": {"subsampling": 0},
        "subsampled.jpg": {"subsampling": 2},
        "progressive.jpg": {"progressive": True, "subsampling": 0},
    }.items():
        image.save(FOLDER / name, quality=90, **options)
        expect(name, Image.open(FOLDER / name).convert("RGB"))
    grey.save(FOLDER / "grey.jpg", quality=90)
    expect("grey.jpg", Image.open(FOLDER / "grey.jpg"))

    for height, width in [(7, 9), (33, 40), (15, 5), (1, 1)]:
        expect(f"rgb.png at {height} x {width}", image.resize((width, height), Image.Resampling.BILINEAR))

    # Three digits' worth of IDX, in MNIST's layout.
    pixels = np.arange(3 * 4 * 5, dtype="u1").reshape(3, 4, 5) * 4
    images = struct.pack(">IIII", 0x803, *pixels.shape) + pixels.tobytes()
    labels = struct.pack(">II", 0x801, 3) + bytes([7, 0, 9])
    (FOLDER / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, mtime=0))
    (FOLDER / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels, mtime=0))

    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
