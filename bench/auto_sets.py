"""The data sets of auto_table.py, and how parts of them are made. Dev and test are the same for all parts of a set."""

import dataclasses
import gzip
import hashlib
import io
import pathlib
import tarfile
import typing


@dataclasses.dataclass
class Set:
    """A data set, the score that is compared, and how a part of it is given to a run."""

    task: str
    name: str
    source: pathlib.Path
    score: str
    # From the source, a folder to write to and the part: the path of the data, and further arguments.
    part: typing.Callable[[pathlib.Path, pathlib.Path, float], tuple[pathlib.Path, list[str]]]
    arguments: list[str] = dataclasses.field(default_factory=list)
    # Number of runs whose scores are averaged: for sets that are so small that a single run says little.
    seeds: int = 1
    # Parts that are compared, of those that are asked for.
    parts: tuple[float, ...] = (0.05, 0.2, 1)
    # Configuration files of configs/ that are compared too, by part.
    files: dict[float, str] = dataclasses.field(default_factory=dict)
    # Whether no rule and no file was chosen on this set.
    is_new: bool = False


def sets(data, fashion):
    """Returns all data sets, those that are quick first."""
    backwards = setting("data.source=2") + setting("data.target=1")
    held = setting("data.test_index=0-4") + setting("data.dev_index=5-9")
    translators = {0.05: "translate-small", 0.2: "translate-middle"}
    ewt = data / "ud-english-ewt"
    book, tatoeba = data / "tinyshakespeare/input.txt", data / "tatoeba-fra-eng/fra.txt.gz"
    return [
        Set("classify", "snips intents", data / "snips/intents", "accuracy", fewer_rows, files={1: "classify-intents"}),
        Set("classify", "polarity", data / "sentence-polarity/polarity.tsv.gz", "accuracy", by_hash("tsv", header=True)),
        Set("graph", "cora", data / "cora", "accuracy", fewer_nodes, seeds=3),
        Set("words", "tinyshakespeare", book, "loss", beginning),
        Set("tag", "finnish", data / "ud-finnish-tdt-small", "accuracy", shared),
        Set("tag", "snips slots", data / "snips/slots", "f1", shared, files={1: "tag-entities"}),
        Set("tag", "ewt", data / "ud-english-ewt", "accuracy", shared),
        Set("generate", "names", data / "names/names.txt", "bits_per_character", by_hash("txt")),
        Set("generate", "tinyshakespeare", book, "bits_per_character", beginning, files={1: "generate-book"}),
        Set("vectors", "pendigits", data / "pendigits", "accuracy", fewer_segments),
        Set("speech", "spoken digits", data / "free-spoken-digits/recordings.tar.xz", "accuracy", fewer_recordings, held, seeds=3),
        Set("pretrain", "tinyshakespeare", book, "loss", beginning),
        Set("image", "fashion", fashion, "accuracy", limited, setting("data.dev=5000")),
        Set("classify", "ewt genres", ewt, "accuracy", genres, parts=(1,), files={1: "classify-intents"}, is_new=True),
        Set("tag", "ewt names", ewt, "f1", names, parts=(1,), files={1: "tag-entities"}, is_new=True),
        Set("generate", "french sentences", tatoeba, "bits_per_character", prose, parts=(1,), files={1: "generate-book"}, is_new=True),
        Set("translate", "tatoeba en→fr", tatoeba, "bleu", pairs(0), files=translators),
        Set("translate", "tatoeba fr→en", tatoeba, "bleu", pairs(1), backwards, files=translators, is_new=True),
    ]


def setting(text):
    return ["--set", text]


def shared(source, _, share):
    """A set whose task has `data.share`."""
    return source, setting(f"data.share={share:g}")


def limited(source, _, share):
    """Pictures, of which `data.limit` uses the first; 5,000 of 60,000 are dev."""
    return source, setting(f"data.limit={round(55000 * share)}")


def opened(path):
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8")


def chance(text):
    """A number from 0 to below 1 by a hash of a text, so that a smaller part is in a larger one."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12


def split_of(text, held_out):
    """The split of an example, by a hash that does not depend on the part; dev and test are `held_out` of all each."""
    place = chance("split\t" + text)
    return "dev" if place < held_out else "test" if place < 2 * held_out else "train"


def by_hash(ending, header=False):
    """A data set of one file of lines, cut into a folder with three files."""

    def part(source, folder, share):
        with opened(source) as file:
            lines = file.read().splitlines(keepends=True)
        head, lines = (lines[:1], lines[1:]) if header else ([], lines)
        for split in ("train", "dev", "test"):
            kept = [line for line in lines if split_of(line, 0.05) == split and (split != "train" or chance(line) < share)]
            (folder / f"{split}.{ending}").write_text("".join(head + kept), encoding="utf-8")
        return folder, []

    return part


def pairs(source_column):
    """Pairs of sentences, split by their source: about 1,200 sources are dev and as many test. `data.share` makes the parts."""

    def part(source, folder, share):
        with opened(source) as file:
            lines = file.read().splitlines(keepends=True)
        for split in ("train", "dev", "test"):
            kept = [line for line in lines if split_of(line.rstrip("\n").split("\t")[source_column], 0.01) == split]
            (folder / f"{split}.tsv").write_text("".join(kept), encoding="utf-8")
        return folder, setting(f"data.share={share:g}")

    return part


def beginning(source, folder, share):
    """A book: the last tenth is dev and test, the part is the beginning of the rest."""
    with opened(source) as file:
        text = file.read()
    return beginning_of(text, folder, share)


def beginning_of(text, folder, share):
    """A text cut into three files, the training text by a share."""
    ends = [int(len(text) * at) for at in (0.9, 0.95, 1)]
    for split, (start, end) in dict(train=(0, int(ends[0] * share)), dev=ends[:2], test=ends[1:]).items():
        (folder / f"{split}.txt").write_text(text[start:end], encoding="utf-8")
    return folder, []


def sentences(path):
    """The sentences of a CoNLL-U file: the first word of the identifier, the text, and forms with their tags."""
    genre, text, words = "", "", []
    with opened(path) as file:
        for line in [*file.read().splitlines(), ""]:
            if line.startswith("# sent_id = "):
                genre = line.removeprefix("# sent_id = ").split("-")[0]
            elif line.startswith("# text = "):
                text = line.removeprefix("# text = ")
            elif line and line.split("\t")[0].isdigit():
                words.append((line.split("\t")[1], line.split("\t")[3]))
            elif not line and words:
                yield genre, text, words
                words = []


def genres(source, folder, _):
    """Sentences of a treebank with where they are from: answers, mails, newsgroups, reviews or weblogs."""
    for split in ("train", "dev", "test"):
        rows = [f"{genre}\t{text}\n" for genre, text, _ in sentences(source / f"{split}.conllu.gz")]
        (folder / f"{split}.tsv").write_text("".join(["label\ttext\n", *rows]), encoding="utf-8")
    return folder, []


def names(source, folder, _):
    """Names in a treebank: each run of proper nouns is a span."""
    for split in ("train", "dev", "test"):
        lines = []
        for _, _, words in sentences(source / f"{split}.conllu.gz"):
            before = ""
            for form, tag in words:
                span = "O" if tag != "PROPN" else "I-NAME" if before == "PROPN" else "B-NAME"
                lines.append(f"{form}\t{span}\n")
                before = tag
            lines.append("\n")
        (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    return folder, []


def prose(source, folder, _):
    """A million letters of French: the last sentences of the file, which are the longest, each once; the last tenth is dev and test."""
    with opened(source) as file:
        french = dict.fromkeys(line.split("\t")[1].strip() for line in file)
    text = "\n".join(french)[-1_000_000:]
    return beginning_of(text, folder, 1)


def fewer_rows(source, folder, share):
    """Rows of a table in a folder; only its training file gets smaller."""
    for path in source.iterdir():
        with opened(path) as file:
            head, *rows = file.read().splitlines(keepends=True)
        kept = [row for row in rows if not path.name.startswith("train.") or chance(row) < share]
        (folder / path.name.removesuffix(".gz")).write_text("".join([head, *kept]), encoding="utf-8")
    return folder, []


def fewer_segments(source, folder, share):
    """Digits of UNIPEN files. The test file has other writers, so those of the last writers to train on are dev."""

    def writer(segment):
        # .COMMENT digit writer number
        return int(segment.split(".COMMENT")[1].split()[1])

    for path in source.iterdir():
        with opened(path) as file:
            head, *segments = file.read().split(".SEGMENT")
        splits = {"test": segments}
        if "train" in path.name:
            dev = [segment for segment in segments if writer(segment) > 26]
            rest = [segment for segment in segments if writer(segment) <= 26 and chance(segment) < share]
            splits = {"train": rest, "dev": dev}
        for split, kept in splits.items():
            (folder / f"{split}.unipen").write_text(".SEGMENT".join([head, *kept]))
    return folder, []


def fewer_nodes(source, folder, share):
    """Nodes of a graph; training nodes that are left out stay in it without being learnt from."""
    with opened(source / "nodes.tsv.gz") as file:
        lines = file.read().splitlines()
    split, label = (lines[0].split("\t").index(name) for name in ("split", "label"))
    seen = {}
    for number, line in enumerate(lines):
        cells = line.split("\t")
        if cells[split] == "train":
            # The same share of each label, and at least one node.
            seen[cells[label]] = seen.get(cells[label], 0) + 1
            if seen[cells[label]] > max(1, round(20 * share)):
                cells[split] = "none"
                lines[number] = "\t".join(cells)
    (folder / "nodes.tsv").write_text("\n".join(lines) + "\n")
    with opened(source / "edges.tsv.gz") as file:
        (folder / "edges.tsv").write_text(file.read())
    return folder, []


def fewer_recordings(source, folder, share):
    """Recordings {digit}_{speaker}_{index}.wav; those with indices below 10 are dev and test."""
    target = folder / "recordings.tar"
    with tarfile.open(source) as archive, tarfile.open(target, "w") as part:
        for member in archive:
            name = pathlib.PurePath(member.name)
            if name.suffix == ".wav" and int(name.stem.split("_")[2]) < 10 + round(40 * share):
                part.addfile(member, io.BytesIO(archive.extractfile(member).read()))
    return target, []
