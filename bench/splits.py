"""The split of examples into training and held-out parts, as in crates/data/src/split.rs and hash.rs."""

MASK = 2**64 - 1


def hash64(text):
    """Returns the FNV-1a hash of the bytes, passed through the finaliser of MurmurHash3."""
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = (state ^ byte) * 0x100000001B3 & MASK
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        state = (state ^ state >> 33) * factor & MASK
    return state ^ state >> 33


def side(text):
    """Returns the part that an example of a single file belongs to, by its input."""
    return {0: "test", 1: "dev"}.get((hash64(text) & 0xFFFFFFFF) * 20 >> 32, "train")


def is_shared(tokens, share):
    """Returns whether `data.share` of `regard train tag` leaves a sentence in the training part."""
    return (hash64("share\t" + " ".join(tokens)) >> 11) / 2**53 < share
