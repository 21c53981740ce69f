"""Two steps of fine-tuning with PyTorch: a classifier and a translator as a whole and with adapters of `peft`, classifiers of the
families of RoBERTa and DistilBERT, a translator of that of T5, and a language model.

A file `hugging_face/NAME/tuned.safetensors` or `hugging_face/NAME/lora.safetensors` holds `input_ids` and `labels`, the `losses` of
both steps, and the trained weights after them under `after/`; with adapters also those before the first step, under `before/`.
The files of translators also have the `decoder_input_ids` that `transformers` makes of the labels, and `plain_loss`, its own loss before
the first step; the losses of the steps have a label smoothing of 0.1.
The models are those of hugging_face.py. There is no dropout. PyTorch computes in float64, and AdamW has a weight decay on matrices.
"""

import torch
import transformers
from hugging_face import BATCH, HERE, padded, save, seeded

RATE, DECAY, SMOOTHING = 1e-2, 0.1, 0.1


def own_loss(model, given):
    return model(**given).loss


def smoothed_loss(model, given):
    """The loss of a translator with label smoothing; padding has the label -100."""
    logits = model(**given).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), given["labels"].flatten(), ignore_index=-100, label_smoothing=SMOOTHING)


def steps(model, given, loss_of=own_loss):
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
        loss = loss_of(model, given)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), {name: weight.detach() for name, weight in trained}


def opened(kind, name):
    config = transformers.AutoConfig.from_pretrained(HERE / name)
    for key in vars(config):
        if key.endswith(("dropout", "dropout_prob", "dropout_rate", "pdrop")) and isinstance(getattr(config, key), float):
            setattr(config, key, 0.0)
    model = kind.from_pretrained(HERE / name, config=config, dtype=torch.float32, attn_implementation="eager")
    # The decoder of a Marian begins with the padding token, whose vector PyTorch would not train where it is read.
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None
    return model.double().train()


def classifier():
    ids, mask = padded(BATCH, "right", 0)
    given = {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([2, 0])}
    kept = {"input_ids": ids, "lengths": mask.sum(1), "labels": given["labels"]}
    model = opened(transformers.BertForSequenceClassification, "bert-classifier")
    losses, after = steps(model, given)
    save(HERE / "bert-classifier", "tuned", kept | {"losses": losses} | {f"after/{name}": weight for name, weight in after.items()})

    model = opened(transformers.BertForSequenceClassification, "bert-classifier")
    adapted(model, "bert-classifier", "SEQ_CLS", ["query", "value", "intermediate.dense"], given, kept)


def relatives():
    for name, kind, pad in (
        ("roberta-classifier", transformers.RobertaForSequenceClassification, 1),
        ("distilbert-classifier", transformers.DistilBertForSequenceClassification, 0),
    ):
        ids, mask = padded(BATCH, "right", pad)
        labels = torch.tensor([2, 0])
        losses, after = steps(opened(kind, name), {"input_ids": ids, "attention_mask": mask, "labels": labels})
        kept = {"input_ids": ids, "lengths": mask.sum(1), "labels": labels, "losses": losses}
        save(HERE / name, "tuned", kept | {f"after/{path}": weight for path, weight in after.items()})


def adapted(model, name, task, targets, given, kept, loss_of=own_loss):
    """Makes two steps with adapters."""
    import peft

    seeded("lora")
    settings = peft.LoraConfig(task_type=task, r=3, lora_alpha=6, lora_dropout=0.0, target_modules=targets)
    model = peft.get_peft_model(model, settings).double()
    with torch.no_grad():
        for path, weight in sorted(model.named_parameters()):
            if "lora_" in path:
                weight.copy_((torch.randn(weight.shape) * 0.3).float())
    trained = lambda: {plain(path): weight.detach().clone() for path, weight in model.named_parameters() if weight.requires_grad}
    before = trained()
    losses, _ = steps(model, given, loss_of)
    after = {f"after/{path}": weight for path, weight in trained().items()}
    save(HERE / name, "lora", kept | {"losses": losses} | {f"before/{path}": weight for path, weight in before.items()} | after)


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


def translators():
    ids, mask = padded([[5, 9, 11, 7, 1], [12, 6, 1]], "right", 0)
    labels = torch.tensor([[8, 13, 1, -100], [6, 21, 17, 1]])
    given = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    for name, kind in (("marian", transformers.MarianMTModel), ("t5", transformers.T5ForConditionalGeneration)):
        model = opened(kind, name)
        read = model.prepare_decoder_input_ids_from_labels(labels)
        plain_loss = own_loss(model, given).detach().reshape(1)
        kept = {"input_ids": ids, "lengths": mask.sum(1), "labels": labels, "decoder_input_ids": read}
        losses, after = steps(model, given, smoothed_loss)
        save(HERE / name, "tuned", kept | {"plain_loss": plain_loss, "losses": losses} | {f"after/{path}": weight for path, weight in after.items()})
        if name == "marian":
            adapted(opened(kind, name), name, "SEQ_2_SEQ_LM", ["q_proj", "v_proj"], given, kept, smoothed_loss)


if __name__ == "__main__":
    classifier()
    relatives()
    language_model()
    translators()
