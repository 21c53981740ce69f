"""Makes `ctc.safetensors`: CTC losses and their gradients by PyTorch. Run it without arguments; `reference.py` describes the file.

`logits` `[Σ frames, vocab]` has the sequences one after the other; `losses` is `[sequences]`.
"""

import torch
import torch.nn.functional as F

from reference import File


def add(file, name, vocab, frames, texts, blank=0, scale=1.0):
    case = file.case(name, frames=frames, texts=texts, blank=blank)
    logits = case.leaf("logits", sum(frames), vocab, scale=scale)
    padded = torch.nn.utils.rnn.pad_sequence(logits.log_softmax(-1).split(frames))
    labels = torch.tensor([label for text in texts for label in text], dtype=torch.long)
    lengths = torch.tensor([len(text) for text in texts])
    losses = F.ctc_loss(padded, labels, torch.tensor(frames), lengths, blank=blank, reduction="none")
    case.differentiate(losses=losses)


if __name__ == "__main__":
    file = File("ctc")
    add(file, "one", 5, [9], [[1, 3, 2]])
    add(file, "repeats", 4, [8], [[2, 2, 2, 1]])
    add(file, "tight", 4, [4], [[1, 1, 2]])
    add(file, "empty_text", 4, [5], [[]])
    add(file, "batch", 11, [20, 7, 13], [[3, 1, 4, 1, 5], [9, 9], [10]])
    add(file, "blank_last", 6, [10, 12], [[0, 1, 0], [4, 3, 3, 2]], blank=5)
    add(file, "sharp", 7, [30], [[1, 2, 3, 4, 5, 6]], scale=8.0)
    file.save()
