"""Makes tiny random models of every family of checkpoints with `transformers`, and what they compute.

A folder `hugging_face/NAME` has what `save_pretrained` writes (`config.json`, `model.safetensors`), a tokeniser where the model
reads text, and references: `reference.safetensors` for a batch padded on the right, `left.safetensors` for one padded on the
left. A reference holds `input_ids`, `attention_mask`, and of the outputs `logits`, `last_hidden_state`, `pooler_output`,
`hidden_states.N`, `attentions.N`, `cross_attentions.N`, `encoder_attentions.N`, `generated_ids`. `generation.json` has what
`generate` writes with many settings.

Weights are random float32 numbers, rounded to what the file's type holds; PyTorch computes with them in float64, and results are
rounded to float32 once. With padding on the left, positions count from the first real token, as `generate` counts them.
"""

import json
import pathlib
import shutil
import zlib

import safetensors.torch
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

HERE = pathlib.Path(__file__).resolve().parent / "hugging_face"
WORDS = "the cat sat on a mat dog ran in park she saw it small big red old ##s ##ed ##ing un ##able . , ! ?".split()
BATCH = [[5, 9, 11, 7, 23, 8, 6], [12, 6, 19, 10]]

torch.set_num_threads(1)


def seeded(name):
    torch.manual_seed(zlib.crc32(name.encode()))


def randomise(model, scale=0.3):
    """Gives every weight a random number, so that no weight is at a value that hides a mistake, such as a bias of 0."""
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if weight.requires_grad or "embed_positions" not in name:
                noise = torch.randn(weight.shape) * (scale if weight.dim() > 1 else 0.1)
                weight.copy_(noise + 1 if weight.dim() == 1 and "norm" in name.lower() and name.endswith("weight") else noise)


def padded(rows, side, pad):
    width = max(map(len, rows))
    fill = lambda row: [pad] * (width - len(row))
    ids = [fill(row) + row if side == "left" else row + fill(row) for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) if side == "left" else [1] * len(row) + [0] * (width - len(row)) for row in rows]
    return torch.tensor(ids), torch.tensor(mask)


def save(folder, name, tensors):
    tensors = {key: (value.float() if value.is_floating_point() else value.long()).detach().contiguous() for key, value in tensors.items()}
    for key, value in tensors.items():
        assert not value.isnan().any(), f"{folder.name}/{name}: {key} has NaN"
    data = safetensors.torch.save(tensors, {"origin": f"golden/hugging_face.py, transformers {transformers.__version__}"})
    (folder / f"{name}.safetensors").write_bytes(data)


def outputs(found):
    """Returns the outputs by name."""
    kept = {}
    for key in ("logits", "last_hidden_state", "pooler_output"):
        if getattr(found, key, None) is not None:
            kept[key] = getattr(found, key)
    for ours, theirs in (
        ("hidden_states", ("hidden_states", "decoder_hidden_states")),
        ("attentions", ("attentions", "decoder_attentions")),
        ("cross_attentions", ("cross_attentions",)),
        ("encoder_attentions", ("encoder_attentions",)),
    ):
        for name in theirs:
            for layer, tensor in enumerate(getattr(found, name, None) or ()):
                kept[f"{ours}.{layer}"] = tensor
    return kept


def hide(kept, mask):
    """Sets rows of padding, which may be NaN, to zero: nothing is promised about them."""
    keep = mask.bool()
    for key, value in kept.items():
        if key == "logits" and value.dim() == 3 or key.startswith(("hidden_states", "last_hidden_state")):
            kept[key] = torch.where(keep[:, :, None], value, 0.0)
        elif key.startswith("attentions"):
            kept[key] = torch.where(keep[:, None, :, None], value, 0.0)
    return kept


def model_of(name, kind, config, dtype=torch.float32, scale=0.3):
    seeded(name)
    config._attn_implementation = "eager"
    model = kind(config)
    randomise(model, scale)
    model = model.to(dtype).eval()
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    text = json.loads((folder / "config.json").read_text())
    # transformers writes its own version; a newer one should not change the file.
    text.pop("transformers_version", None)
    (folder / "config.json").write_text(json.dumps(text, indent=2, sort_keys=True) + "\n")
    # Read again, because a conversion of the whole model would also round what is computed, such as the frequencies of RoPE.
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").double().eval(), folder


def gradients(model, folder, **given):
    """Gradients of every stored weight, for the loss `sum(logits * loss_weights)`."""
    logits = model(**given).logits
    weights = torch.randn(logits.shape).float().double()
    named = dict(model.named_parameters())
    stored = [name for name in safetensors.torch.load_file(folder / "model.safetensors") if name in named and named[name].requires_grad]
    found = torch.autograd.grad((logits * weights).sum(), [named[name] for name in stored])
    save(folder, "gradients", given | {"loss_weights": weights} | {f"grad/{name}": grad for name, grad in zip(stored, found)})


def encoder(name, kind, config, **more):
    model, folder = model_of(name, kind, config, **more)
    pad = config.pad_token_id or 0
    for side, file in (("right", "reference"), ("left", "left")):
        ids, mask = padded(BATCH, side, pad)
        given = {"attention_mask": mask}
        if side == "left" and not isinstance(config, transformers.RobertaConfig):
            given["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
        found = model(ids, output_hidden_states=True, output_attentions=True, **given)
        kept = hide(outputs(found), mask)
        if side == "left":
            # These read the first token, which is padding here.
            kept = {key: value for key, value in kept.items() if key != "pooler_output" and (key, value.dim()) != ("logits", 2)}
        save(folder, file, {"input_ids": ids, "attention_mask": mask} | kept)
    return model, folder


def decoder(name, kind, config, prompts=BATCH, **more):
    model, folder = model_of(name, kind, config, **more)
    ids, mask = padded(prompts, "right", 0)
    found = model(ids, attention_mask=mask, output_hidden_states=True, output_attentions=True)
    save(folder, "reference", {"input_ids": ids, "attention_mask": mask} | hide(outputs(found), mask))
    ids, mask = padded(prompts, "left", 0)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    # In float64, a row that sees nothing is NaN in transformers, and spreads.
    model = model.float()
    found = model(ids, attention_mask=mask, position_ids=positions, output_hidden_states=True, output_attentions=True)
    written = model.generate(ids, attention_mask=mask, max_new_tokens=12, do_sample=False, num_beams=1, pad_token_id=0, eos_token_id=None)
    save(folder, "left", {"input_ids": ids, "attention_mask": mask, "generated_ids": written} | hide(outputs(found), mask))
    return model, folder


def translator(name, kind, config, **more):
    model, folder = model_of(name, kind, config, **more)
    pad = config.pad_token_id
    ids, mask = padded([[5, 9, 11, 7, 1], [12, 6, 1]], "right", pad)
    target = torch.tensor([[config.decoder_start_token_id, 8, 13, 9], [config.decoder_start_token_id, 6, 21, 17]])
    found = model(ids, attention_mask=mask, decoder_input_ids=target, output_hidden_states=True, output_attentions=True)
    kept = outputs(found)
    for key in kept:
        if key.startswith("encoder_attentions"):
            kept[key] = kept[key] * mask.bool()[:, None, :, None]
    written = model.generate(ids, attention_mask=mask, max_new_tokens=10, do_sample=False, num_beams=1, bad_words_ids=None)
    save(folder, "reference", {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": target, "generated_ids": written} | kept)
    return model, folder


def generation(model, folder, prompts, cases):
    """Tokens that `generate` writes with settings of `generation_config.json`, without the prompt, the end and padding."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    model, config, found = model.float(), model.config, []
    is_translator = config.is_encoder_decoder
    ids, mask = padded(prompts, "right" if is_translator else "left", config.pad_token_id or 0)
    tokens = {key: getattr(config, key, None) for key in ("bos_token_id", "eos_token_id", "decoder_start_token_id")}
    for settings in cases:
        plan = transformers.GenerationConfig(**(tokens | {"pad_token_id": config.pad_token_id or 0, "max_new_tokens": 12} | settings))
        written = model.generate(ids, attention_mask=mask, generation_config=plan)[:, 1 if is_translator else ids.shape[1] :]
        ends = plan.eos_token_id if isinstance(plan.eos_token_id, list) else [plan.eos_token_id]
        rows = []
        for row in written.tolist():
            end = next((at for at, id in enumerate(row) if id in ends), len(row))
            rows.append(row[:end])
        found.append({"settings": {"max_new_tokens": 12} | settings, "written": rows})
    torch.set_default_dtype(before)
    (folder / "generation.json").write_text(json.dumps({"prompts": prompts, "cases": found}) + "\n")


PROMPTS = [[5, 9, 11, 7, 23, 8, 6], [12, 6, 19, 10], [3]]
# Ends that are probable enough to be written.
ENDS = {"eos_token_id": [17, 28, 9]}


def plans(**more):
    """Settings of generation that change what is written."""
    beam = {"num_beams": 4}
    plans = [
        {},
        ENDS,
        beam,
        beam | ENDS,
        beam | ENDS | {"early_stopping": True, "length_penalty": 0.3},
        ENDS | {"num_beams": 3, "early_stopping": "never", "length_penalty": 2.0},
        beam | ENDS | {"length_penalty": -1.0},
        {"repetition_penalty": 1.7},
        beam | ENDS | {"repetition_penalty": 1.7},
        {"no_repeat_ngram_size": 2},
        beam | {"no_repeat_ngram_size": 1},
        ENDS | {"min_new_tokens": 4, "suppress_tokens": [2, 8], "begin_suppress_tokens": [4, 6, 10]},
        beam | ENDS | {"bad_words_ids": [[3], [5, 6], [21]], "min_new_tokens": 3},
        {"forced_eos_token_id": 9, "max_new_tokens": 5},
        beam | ENDS | {"bad_words_ids": [[token] for token in range(18, 28)], "renormalize_logits": True},
        beam | ENDS | {"suppress_tokens": list(range(10, 24)), "renormalize_logits": True, "length_penalty": 2.0},
        {"repetition_penalty": 1.7, "renormalize_logits": True},
    ]
    return [plan | more for plan in plans]


def word_pieces(folder, before="[CLS]", after="[SEP]", pad="[PAD]", unknown="[UNK]", mask="[MASK]"):
    """A tokeniser like BERT's, with settings of truncation and padding that a reader must not follow."""
    vocab = {token: number for number, token in enumerate([pad, before, after, unknown, mask] + WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{before} $A {after}",
        pair=f"{before} $A {after} $B:1 {after}:1",
        special_tokens=[(before, 1), (after, 2)],
    )
    tokenizer.add_special_tokens([pad, before, after, unknown, mask])
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8, pad_token=pad)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def bytes_pairs(folder, merges=("t h", "Ġ c", "Ġc a", "Ġ t", "Ġt h")):
    """A tokeniser like GPT-2's: byte-level, without an unknown token."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [tuple(merge.split()) for merge in merges]
    vocab = {"<|endoftext|>": 0} | {token: number for number, token in enumerate(letters + ["".join(pair) for pair in merges], 1)}
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def texts(model, folder, tokenizer, sentences):
    """The mean of the last states of the real tokens, normalised: a text of more tokens than `max_seq_length` is cut."""
    rows = []
    tokenizer.no_padding()
    tokenizer.enable_truncation(12)
    for sentence in sentences:
        encoding = tokenizer.encode(sentence)
        state = model(torch.tensor([encoding.ids])).last_hidden_state[0]
        mean = state.mean(0)
        rows.append((mean / mean.norm()).tolist())
    (folder / "embeddings.json").write_text(json.dumps({"texts": sentences, "embeddings": [[round(x, 8) for x in row] for row in rows]}) + "\n")


def sentences(name, config):
    model, folder = encoder(name, transformers.BertModel, config)
    tokenizer = word_pieces(folder)
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 12, "do_lower_case": False}) + "\n")
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": config.hidden_size, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
               "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling, indent=2) + "\n")
    long = "the cat sat on a mat, the dog ran in the park, she saw it!"
    texts(model, folder, tokenizer, ["the cat sat", "Unsaw dogs.", long])


def bert(**more):
    labels = {"id2label": {0: "sad", 1: "glad", 2: "odd"}} if more.pop("labels", False) else {}
    sizes = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24, max_position_embeddings=20)
    return transformers.BertConfig(**(sizes | labels | more))


def distilbert(**more):
    return transformers.DistilBertConfig(vocab_size=40, dim=16, n_layers=2, n_heads=4, hidden_dim=24, max_position_embeddings=20, **more)


def roberta(**more):
    return transformers.RobertaConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
                                      max_position_embeddings=22, type_vocab_size=1, **more)


def llama(kind, **more):
    sizes = dict(vocab_size=48, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=24,
                 max_position_embeddings=64, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    return kind(**(sizes | more))


def rope(**more):
    return {"rope_parameters": {"rope_theta": 10000.0} | more}


def vision(name, kind, config):
    model, folder = model_of(name, kind, config)
    pixels = torch.randn(2, config.num_channels, config.image_size, config.image_size).float().double()
    found = model(pixel_values=pixels, output_hidden_states=True, output_attentions=True)
    save(folder, "reference", {"pixel_values": pixels} | outputs(found))
    settings = {"do_resize": True, "size": {"height": config.image_size, "width": config.image_size}, "resample": 2, "do_rescale": True,
                "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "image_processor_type": "ViTImageProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def buckets():
    """The bucket of each distance of a key from its query, from the farthest before to the farthest after."""
    from transformers.models.t5.modeling_t5 import T5Attention

    cases = []
    for count, farthest in ((32, 128), (8, 12), (64, 500)):
        for both in (True, False):
            distances = torch.arange(-farthest, farthest + 1)
            found = T5Attention._relative_position_bucket(distances, both, count, farthest)
            cases.append({"buckets": count, "max_distance": farthest, "bidirectional": both, "of_distances": found.tolist()})
    (HERE / "buckets.json").write_text(json.dumps(cases) + "\n")


CHATS = {
    "chatml": (
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>' + '\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    ),
    "blocks": """{{ bos_token }}
{%- set ns = namespace(first=true, count=0) %}
{% for message in messages %}
    {% if message.role == 'system' and loop.first %}
        {{- '[SYS] ' ~ message.content.strip().upper() ~ ' [/SYS]' }}
    {% elif message.role == 'user' %}
        {% set ns.count = ns.count + 1 %}
        {{- '\\n[USER ' ~ ns.count ~ '] ' ~ message['content'].replace('  ', ' ') }}
    {% else %}
        {{- '\\n[BOT] ' + message.content.split('|')[-1].lstrip() + eos_token }}
    {% endif %}
{% endfor %}
{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}
[BOT]
{%- endif %}
""",
    "strict": (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system here, please') }}{% endif %}"
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
        "{% if m.content is string and m.content.startswith('!') %}{% continue %}{% endif %}"
        "<{{ m.role[0] }}>{{ m.content | tojson }}{% endfor %}{{ {'a': [1, 2.5, none, true], 'b': 'é<x>'} | tojson }}"
    ),
    "macro": (
        "{% macro turn(who, what) -%}<{{ who }}>{{ what }}</{{ who }}>{%- endmacro -%}"
        "{{ (bos_token if bos_token is defined else '') }}{% for m in messages if m.content %}{{ turn(m.role, m.content | length) }}"
        "{% if not loop.last %}, {% endif %}{% endfor %}{% if tools is defined and tools %}tools{% endif %}"
        "{{ messages | map(attribute='role') | join('/') }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
    ),
}
TALKS = [
    [{"role": "user", "content": " Hello,  you! "}],
    [{"role": "system", "content": " Be kind. "}, {"role": "user", "content": "Hi <b>\u00e9</b>"}, {"role": "assistant", "content": "think| yes"}, {"role": "user", "content": "!really?"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b\n\nc"}, {"role": "user", "content": "!d"}],
]


def chats():
    """Conversations written by chat templates, or the messages of errors that templates raise."""
    found = []
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    for name, template in CHATS.items():
        for number, messages in enumerate(TALKS):
            tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")), **tokens)
            case = {"name": f"{name} {number}", "template": template, "settings": tokens, "messages": messages}
            try:
                case["text"] = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True)
            except Exception as error:
                case["error"] = str(error)
            found.append(case)
    (HERE / "chat.json").write_text(json.dumps(found, indent=1) + "\n")


def main():
    HERE.mkdir(exist_ok=True)
    buckets()
    chats()
    encoder("bert", transformers.BertModel, bert())
    model, folder = encoder("bert-masked", transformers.BertForMaskedLM, bert())
    word_pieces(folder)
    ids = torch.tensor(BATCH[:1])
    gradients(model, folder, input_ids=ids, token_type_ids=torch.tensor([[0, 0, 0, 0, 1, 1, 1]]))
    _, folder = encoder("bert-tagger", transformers.BertForTokenClassification, bert(labels=True), dtype=torch.bfloat16)
    word_pieces(folder)
    _, folder = encoder("bert-classifier", transformers.BertForSequenceClassification, bert(labels=True), dtype=torch.float16)
    word_pieces(folder)
    sentences("sentences", bert())

    config = transformers.GPT2Config(vocab_size=262, n_embd=16, n_layer=2, n_head=4, n_positions=40, bos_token_id=0, eos_token_id=0)
    model, folder = decoder("gpt2", transformers.GPT2LMHeadModel, config)
    bytes_pairs(folder)
    generation(model, folder, PROMPTS, plans())
    model, folder = decoder("llama", transformers.LlamaForCausalLM, llama(transformers.LlamaConfig))
    generation(model, folder, PROMPTS, plans(**ENDS))
    scaled = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
    model, folder = decoder("llama3", transformers.LlamaForCausalLM, llama(transformers.LlamaConfig, tie_word_embeddings=True, **rope(**scaled)))
    gradients(model.double(), folder, input_ids=ids)
    linear = llama(transformers.LlamaConfig, **rope(rope_type="linear", factor=2.0))
    decoder("llama-linear", transformers.LlamaForCausalLM, linear, dtype=torch.bfloat16)
    yarn = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
    for name, kind, config in (
        ("llama-yarn", transformers.LlamaForCausalLM, llama(transformers.LlamaConfig, head_dim=8, **rope(**yarn))),
        ("mistral", transformers.MistralForCausalLM, llama(transformers.MistralConfig, sliding_window=4)),
        ("qwen2", transformers.Qwen2ForCausalLM, llama(transformers.Qwen2Config, tie_word_embeddings=True)),
        ("qwen3", transformers.Qwen3ForCausalLM, llama(transformers.Qwen3Config, head_dim=6)),
    ):
        model, folder = decoder(name, kind, config)
        gradients(model.double(), folder, input_ids=ids)

    _, folder = encoder("distilbert-masked", transformers.DistilBertForMaskedLM, distilbert())
    word_pieces(folder)
    encoder("distilbert-classifier", transformers.DistilBertForSequenceClassification, distilbert(num_labels=3))
    model, folder = encoder("roberta-masked", transformers.RobertaForMaskedLM, roberta())
    gradients(model, folder, input_ids=ids)
    encoder("roberta-classifier", transformers.RobertaForSequenceClassification, roberta(num_labels=3))

    sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24, image_size=6, patch_size=2)
    vision("vit", transformers.ViTForImageClassification, transformers.ViTConfig(num_labels=3, **sizes))

    marian = transformers.MarianConfig(
        vocab_size=40, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=24, activation_function="swish", scale_embedding=True,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, forced_eos_token_id=None)
    model, folder = translator("marian", transformers.MarianMTModel, marian)
    more = [{"num_beams": 4, "bad_words_ids": [[0]], "forced_eos_token_id": 1, "max_length": 9, "max_new_tokens": None}, {"forced_bos_token_id": 7}]
    generation(model, folder, PROMPTS, plans() + more)
    sizes = dict(vocab_size=30, d_model=16, d_kv=5, d_ff=16, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
                 relative_attention_max_distance=12, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    model, folder = translator("t5", transformers.T5ForConditionalGeneration, transformers.T5Config(**sizes))
    generation(model, folder, PROMPTS, plans())
    model = model.double()
    gradients(model, folder, input_ids=ids, decoder_input_ids=torch.tensor([[0, 8, 13, 9]]))
    gated = dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_decoder_layers=1)
    translator("t5-gated", transformers.T5ForConditionalGeneration, transformers.T5Config(**(sizes | gated)))
    for folder in sorted(filter(pathlib.Path.is_dir, HERE.iterdir())):
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(f"{size:7d}  {folder.name}")


if __name__ == "__main__":
    main()
