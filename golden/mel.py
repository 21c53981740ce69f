"""Makes `mel.json`: log-mel features by librosa, of a sound that rises in pitch, with noise. Run it without arguments."""

import json
import pathlib

import librosa
import numpy as np

random = np.random.default_rng(1)
time = np.arange(2000) / 8000
sound = 0.5 * np.sin(2 * np.pi * (200 + 3000 * time) * time) + 0.05 * random.standard_normal(2000)
sound = np.round(sound * 2**15) / 2**15

cases = []
for rate, window, hop, bands, low, high, floor in [
    (8000, 25, 10, 40, 0, 4000, 1e-10),
    (8000, 32, 16, 23, 80, 3800, 1e-10),
    (16000, 25, 10, 80, 0, 8000, 1e-6),
]:
    length, step = rate * window // 1000, rate * hop // 1000
    size = 2 ** int(np.ceil(np.log2(length)))
    # librosa puts a window into the middle of a longer transform; zeros around the sound bring the first one to its start.
    before = (size - length) // 2
    padded = np.pad(sound, (before, size - length - before))
    power = librosa.feature.melspectrogram(
        y=padded, sr=rate, n_fft=size, win_length=length, hop_length=step, center=False,
        n_mels=bands, fmin=low, fmax=high, htk=False, norm="slaney", power=2.0,
    )  # fmt: skip
    features = np.log(np.maximum(power, floor)).T
    case = dict(rate=rate, window=window, hop=hop, bands=bands, low=low, high=high, floor=floor)
    cases.append(case | {"features": [round(float(x), 5) for x in features.flatten()]})

document = {"origin": f"golden/mel.py, librosa {librosa.__version__}", "samples": [float(x) for x in sound], "cases": cases}
path = pathlib.Path(__file__).resolve().parent / "mel.json"
path.write_text(json.dumps(document, separators=(",", ":")) + "\n")
print(path.stat().st_size, path.name)
