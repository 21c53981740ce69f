"""Two steps of fine-tuning with PyTorch: a classifier as a whole, the same with adapters of `peft`, and a language model.

A file `hugging_face/NAME/tuned.safetensors` or `hugging_face/NAME/lora.safetensors` holds `input_ids` and `labels`, the `losses` of
both steps, and the trained weights after them under `after/`; with adapters also those before the first step, under `before/`.
The models are those of hugging_face.py. There is no dropout. PyTorch computes in float64, and AdamW has a weight decay on matrices.
"""

import torch
import transformers
from hugging_face import BATCH, HERE, padded, save, seeded

RATE, DECAY = 1e-2, 0.1


def steps(model, given):
    """Makes two steps of AdamW; returns the losses and the trained weights."""
    trained = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for _, weight in trained if weight.dim() > 1], "weight_decay": DECAY},
        {"params": [weight for _, weight in trained if weight.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(**given).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), {name: weight.detach() for name, weight in trained}


def opened(kind, name):
    config = transformers.AutoConfig.from_pretrained(HERE / name)
    for key in ("hidden_dropout_prob", "attention_probs_dropout_prob", "resid_pdrop", "embd_pdrop", "attn_pdrop"):
        if hasattr(config, key):
            setattr(config, key, 0.0)
    model = kind.from_pretrained(HERE / name, config=config, dtype=torch.float32, attn_implementation="eager")
    return model.double().train()


def classifier():
    ids, mask = padded(BATCH, "right", 0)
    given = {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([2, 0])}
    kept = {"input_ids": ids, "lengths": mask.sum(1), "labels": given["labels"]}
    model = opened(transformers.BertForSequenceClassification, "bert-classifier")
    losses, after = steps(model, given)
    save(HERE / "bert-classifier", "tuned", kept | {"losses": losses} | {f"after/{name}": weight for name, weight in after.items()})

    import peft

    seeded("lora")
    model = opened(transformers.BertForSequenceClassification, "bert-classifier")
    settings = peft.LoraConfig(task_type="SEQ_CLS", r=3, lora_alpha=6, lora_dropout=0.0, target_modules=["query", "value", "intermediate.dense"])
    model = peft.get_peft_model(model, settings).double()
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if "lora_" in name:
                weight.copy_((torch.randn(weight.shape) * 0.3).float())
    trained = lambda: {plain(name): weight.detach().clone() for name, weight in model.named_parameters() if weight.requires_grad}
    before = trained()
    losses, _ = steps(model, given)
    save(
        HERE / "bert-classifier",
        "lora",
        kept | {"losses": losses} | {f"before/{name}": w for name, w in before.items()} | {f"after/{name}": w for name, w in trained().items()},
    )


def plain(name):
    """The name of a weight in an adapter file."""
    return name.replace(".default.", ".").replace(".modules_to_save.", ".").replace("base_model.model.", "", 1)


def language_model():
    ids = torch.tensor([[5, 9, 11, 7, 23, 8], [12, 6, 19, 10, 3, 4]])
    model = opened(transformers.GPT2LMHeadModel, "gpt2")
    # The library shifts the labels by one itself.
    losses, after = steps(model, {"input_ids": ids, "labels": ids})
    kept = {"input_ids": ids, "losses": losses}
    save(HERE / "gpt2", "tuned", kept | {f"after/{name}": weight for name, weight in after.items()})


if __name__ == "__main__":
    classifier()
    language_model()
