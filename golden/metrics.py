"""Makes `metrics.json`: scores by sacrebleu, scikit-learn, SciPy and seqeval, for the tests. Run it without arguments.

`translation`: hypotheses, a list of references for each, and sacrebleu's corpus and sentence scores with its defaults.
`classes`, `label_sets`, `regression`: scikit-learn (Pearson: SciPy). `spans`: seqeval, by default as conlleval.
"""

import importlib.metadata
import json
import pathlib
import random
import warnings

import numpy as np
import scipy.stats
from sacrebleu.metrics import BLEU, CHRF
from seqeval.metrics import classification_report
from sklearn import metrics

HERE = pathlib.Path(__file__).resolve().parent
warnings.filterwarnings("ignore")  # undefined scores are 0, as requested

ENGLISH = [
    "I saw a saw.", "The right to right wrongs is not a rite.", "She hasn't read the book, has she?",
    "We bought 1,234.5 kilos of apples (and 3-4 pears) on 12/05/2019.", "He said: \"Don't wait for me!\"",
    "Well-known authors - three of them - left early; nobody minded.", "It costs $5.00, i.e. 10% more than e-books.",
    "The cat that the dog chased ran away.", "My sister's friend lives at no. 10.", "Why not?",
    "They were playing cards while it rained, and then they went home.", "Go.",
]  # fmt: skip
FRENCH = [
    "J'ai vu une scie.", "Elle n'a pas lu le livre, n'est-ce pas ?", "Où étiez-vous à l'été 1999 ?",
    "Nous avons acheté 1\u202f234,5 kilos de pommes.", "« Ne m'attends pas ! », dit-il.", "Va\u00a0!",
    "L'élève naïf a reçu son cœur de sucre…", "Ça coûte 5,00 € — soit 10 % de plus.", "Il s’en est allé aujourd’hui.",
    "Le chat que le chien a poursuivi s'est enfui.", "Tom n'aime ni le thé, ni le café.", "Quelle heure est-il ?",
]  # fmt: skip
NOISE = list("abAB019é œ") + [
    ".",
    ",",
    "-",
    "'",
    '"',
    "’",
    "&",
    ";",
    "<",
    ">",
    "(",
    ")",
    "/",
    "\t",
    "\u00a0",
    "…",
    "&amp;",
    "&quot;",
    "1.5",
    "2-",
]


def translation(name, hypotheses, references):
    most = max(len(one) for one in references)
    streams = [[one[i] if i < len(one) else None for one in references] for i in range(most)]
    bleu = BLEU().corpus_score(hypotheses, streams)
    sentence, plain, plus = BLEU(effective_order=True), CHRF(), CHRF(word_order=2)
    return {
        "name": name,
        "hypotheses": hypotheses,
        "references": references,
        "bleu": {
            "score": bleu.score,
            "precisions": bleu.precisions,
            "brevity_penalty": bleu.bp,
            "hypothesis_len": bleu.sys_len,
            "reference_len": bleu.ref_len,
        },
        "chrf": plain.corpus_score(hypotheses, streams).score,
        "chrf_plus_plus": plus.corpus_score(hypotheses, streams).score,
        "sentence_bleu": [sentence.sentence_score(h, r).score for h, r in zip(hypotheses, references)],
        "sentence_chrf": [plain.sentence_score(h, r).score for h, r in zip(hypotheses, references)],
    }


def corrupted(draw, text):
    words = text.split(" ")
    for _ in range(draw.randint(0, 3)):
        at = draw.randrange(len(words)) if words else 0
        kind = draw.choice(["drop", "double", "swap", "case", "letter"])
        if not words or kind == "drop":
            del words[at : at + 1]
        elif kind == "double":
            words.insert(at, words[at])
        elif kind == "swap":
            other = draw.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        elif kind == "case":
            words[at] = words[at].swapcase()
        else:
            words[at] = words[at][:-1] + draw.choice("aeé.,!?1-'")
    return " ".join(words)


def translations():
    one = lambda *pairs: ([h for h, _ in pairs], [[r] if isinstance(r, str) else list(r) for _, r in pairs])
    fixed = {
        "ordinary": one(
            ("The cat sat on a mat.", "The cat sat on the mat."), ("It rains a lot here.", "It rains much here.")
        ),
        "punctuation": one(("Yes, no; well... (maybe)! [x] {y} a/b @c #d", "Yes no; well… (maybe)? [x] {z} a/b @c d")),
        "numbers": one(
            ("1,234.5 and 3.14, 5-6, -7, 8. 9,", "1,234.5 and 3.15 , 5 - 6, -7, 8 . 9"),
            ("2.a .3 b,4 5,c", "2 .a .3 b ,4 5 ,c"),
        ),
        "quotes": one(("\"Go,\" she said. 'No.' “Yes.”", "\" Go, \" she said. 'No'. “ Yes. ”")),
        "entities": one(
            ("a &quot;b&quot; &amp; c &lt;d&gt; &amp;lt; AT&T", 'a "b" & c <d> < AT&T'), ("<skipped>x y", "x y z t")
        ),
        "accents": one(("L’élève a reçu un cœur naïf.", "L'élève a reçu un cœur naïf."), ("Ça alors", "ÇA ALORS")),
        "apostrophes": one(("I don't, it's Jim's o'clock l'an", "I do n't, it 's Jim's o'clock l' an")),
        "dashes": one(("well-known 1990-95 a - b — c – d --", "well known 1990 - 95 a – b — c - d -")),
        "spaces": one(("  a\tb\u00a0c\u202fd \u001fe  ", "a b c d e"), ("a-\nb c\nd e f", "ab c d e f")),
        "empty hypothesis": one(("", "The cat sat on the mat."), ("The cat sat.", "The cat sat down.")),
        "all empty hypotheses": one(("", "The cat sat on the mat.")),
        "empty reference": one(("The cat sat on the mat.", ""), ("a b c d e", "a b c d e")),
        "both empty": one(("", "")),
        "identical": one(*((text, text) for text in ENGLISH[:4] + FRENCH[:4])),
        "no overlap": one(("alpha beta gamma delta", "one two three four five")),
        "short": one(("Go .", "Go !"), ("Va", "Va !")),
        "smoothing of 2 to 4": one(("the mat the cat on", "on a mat sat the cat")),
        "smoothing of 4": one(("a b c x d e f", "a b c d e f g")),
        "three words": one(("a b c", "a b c")),
        "brevity": one(("The cat", "The cat sat on the mat."), ("It rains", "It rains a lot here.")),
        "case": one(("THE CAT SAT ON THE MAT", "the cat sat on the mat"), ("The cat sat on it", "the cat sat on it")),
        "many references": one(
            ("The cat sat on the mat.", ["A cat sat on the mat.", "The cat is on a mat.", "On the mat sat the cat."]),
            ("Thanks a lot!", ["Many thanks!", "Thank you very much.", "Thanks!", "Thanks a lot."]),
            ("He went home", ["He has gone home."]),
        ),
        "lengths equally near": one(
            ("a b c d e", ["a b c d", "a b c d e f"]), ("a b c d e", ["a b c d e f g", "a b c"])
        ),
        "counts over references": one(("the the the the cat", ["the the cat", "the the the dog", "cat cat"])),
    }
    cases = [translation(name, *sides) for name, sides in fixed.items()]
    for seed in range(40):
        draw = random.Random(seed)
        texts = draw.sample(ENGLISH if seed % 2 else FRENCH, draw.randint(1, 5))
        references = [[text] + [corrupted(draw, text) for _ in range(draw.randint(0, 2))] for text in texts]
        cases.append(translation(f"corrupted {seed}", [corrupted(draw, text) for text in texts], references))
    for seed in range(12):
        draw = random.Random(f"noise {seed}")
        noise = lambda: "".join(draw.choices(NOISE, k=draw.randint(5, 30)))
        references = [[noise() for _ in range(draw.randint(1, 3))] for _ in range(4)]
        hypotheses = [corrupted(draw, one[0]) for one in references]
        cases.append(translation(f"noise {seed}", hypotheses, references))
    return cases


def pairs(draw, count, classes, right):
    truth = [draw.randrange(classes) for _ in range(count)]
    return truth, [one if draw.random() < right else draw.randrange(classes) for one in truth]


def classes():
    draw, cases = random.Random(1), []
    made = [
        (n, *pairs(draw, count, n, right)) for n, count, right in [(2, 30, 0.8), (5, 60, 0.5), (7, 12, 0.4), (3, 1, 1)]
    ]
    made += [(3, [0, 0, 1], [0, 0, 0]), (3, [0, 0, 0], [1, 2, 1]), (4, [0, 3, 3], [0, 3, 0])]
    for n, truth, predicted in made:
        every = list(range(n))
        precision, recall, f1, support = metrics.precision_recall_fscore_support(
            truth, predicted, labels=every, zero_division=0
        )
        cases.append({
            "classes": n, "truth": truth, "predicted": predicted,
            "confusion": metrics.confusion_matrix(truth, predicted, labels=every).tolist(),
            "accuracy": metrics.accuracy_score(truth, predicted),
            "precision": precision.tolist(), "recall": recall.tolist(), "f1": f1.tolist(),
            "support": [int(one) for one in support],
            "macro_f1": metrics.f1_score(truth, predicted, average="macro", zero_division=0),
            "weighted_f1": metrics.f1_score(truth, predicted, average="weighted", zero_division=0),
        })  # fmt: skip
    return cases


def label_sets():
    draw, cases = random.Random(2), []
    for labels, count, right in [(3, 20, 0.8), (6, 40, 0.6), (4, 5, 0.3), (2, 3, 1.0)]:
        truth = [[label for label in range(labels) if draw.random() < 0.3] for _ in range(count)]
        flip = lambda label, one: (label in one) == (draw.random() < right)
        predicted = [[label for label in range(labels) if flip(label, one)] for one in truth]
        table = lambda sets: np.array([[int(label in one) for label in range(labels)] for one in sets])
        a, b = table(truth), table(predicted)
        cases.append({
            "labels": labels, "truth": truth, "predicted": predicted,
            "subset_accuracy": metrics.accuracy_score(a, b),
            "micro_f1": metrics.f1_score(a, b, average="micro", zero_division=0),
            "macro_f1": metrics.f1_score(a, b, average="macro", zero_division=0),
            "f1": metrics.f1_score(a, b, average=None, zero_division=0).tolist(),
        })  # fmt: skip
    return cases


def regression():
    draw, cases = random.Random(3), []
    number = lambda scale: round(draw.gauss(0, scale), 3)
    for count, noise, shift in [(20, 0.3, 0.0), (7, 2.0, 100.0), (2, 1.0, 0.0), (50, 0.0, -3.0)]:
        truth = [number(1) + shift for _ in range(count)]
        predicted = [one + number(noise) for one in truth]
        cases.append((truth, predicted))
    cases += [([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), ([2.0, 2.0], [2.0, 2.0]), ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0])]

    def scored(truth, predicted):
        varies = len(set(truth)) > 1 and len(set(predicted)) > 1
        return {
            "truth": truth, "predicted": predicted,
            "mse": metrics.mean_squared_error(truth, predicted),
            "mae": metrics.mean_absolute_error(truth, predicted),
            "r2": metrics.r2_score(truth, predicted),
            "pearson": float(scipy.stats.pearsonr(truth, predicted)[0]) if varies else None,
        }  # fmt: skip

    return [scored(*case) for case in cases]


def spans():
    draw, cases = random.Random(4), []
    for kinds, sentences, right in [("A", 4, 0.8), ("ABC", 10, 0.7), ("AB", 6, 0.3), ("ABCD", 8, 1.0)]:
        tags = ["O"] + [f"{part}-{kind}" for kind in kinds for part in "BI"]
        truth = [[draw.choice(tags) for _ in range(draw.randint(1, 12))] for _ in range(sentences)]
        predicted = [[tag if draw.random() < right else draw.choice(tags) for tag in one] for one in truth]
        report = classification_report(truth, predicted, output_dict=True, zero_division=0)
        row = lambda name: {
            "precision": report[name]["precision"], "recall": report[name]["recall"],
            "f1": report[name]["f1-score"], "support": int(report[name]["support"]),
        }  # fmt: skip
        names = [name for name in report if not name.endswith(" avg")]
        scores = {"all": row("micro avg"), "kinds": {name: row(name) for name in sorted(names)}}
        cases.append({"truth": truth, "predicted": predicted, "scores": scores})
    return cases


def main():
    parts = {part.__name__: part() for part in (translations, classes, label_sets, regression, spans)}
    parts["translation"] = parts.pop("translations")
    tools = ("sacrebleu", "scikit-learn", "scipy", "seqeval")
    versions = ", ".join(f"{tool} {importlib.metadata.version(tool)}" for tool in tools)
    body = ",\n".join(
        f'"{name}": [\n' + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]"
        for name, cases in parts.items()
    )
    text = f'{{"origin": "golden/metrics.py, {versions}",\n{body}\n}}\n'
    (HERE / "metrics.json").write_text(text, encoding="utf-8")
    print({name: len(cases) for name, cases in parts.items()}, len(text.encode()), "bytes")


main()
