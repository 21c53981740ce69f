//! Tests `config.json` files of published models, shortened to the fields that matter, against their totals.

use regard_inspect::count::{Architecture, count};
use regard_nn::models::transformer::Sight;
use regard_tasks::hugging_face::describe;
use serde_json::{Value, json};

fn total(config: Value) -> u128 {
    count(&describe(&config).unwrap()).unwrap().parameters()
}

fn bert(d_model: usize, layers: usize, heads: usize, d_ff: usize) -> Value {
    json!({
        "model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu", "hidden_size": d_model,
        "intermediate_size": d_ff, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
        "num_attention_heads": heads, "num_hidden_layers": layers, "type_vocab_size": 2, "vocab_size": 30522,
    })
}

fn llama(kind: &str, sizes: [usize; 6]) -> Value {
    let [d_model, layers, heads, kv_heads, d_ff, vocab] = sizes;
    json!({
        "model_type": kind, "hidden_act": "silu", "hidden_size": d_model, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "intermediate_size": d_ff,
        "vocab_size": vocab, "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "rope_scaling": null,
    })
}

fn with(mut config: Value, field: &str, value: Value) -> Value {
    config[field] = value;
    config
}

#[test]
fn encoders() {
    assert_eq!(total(bert(768, 12, 12, 3072)), 109_482_240);
    assert_eq!(total(bert(1024, 24, 16, 4096)), 335_141_888);
    assert_eq!(total(bert(384, 6, 12, 1536)), 22_713_216);
    // A tagger has no pooler, but a classifier with 769 parameters per tag.
    let ner = with(bert(768, 12, 12, 3072), "architectures", json!(["BertForTokenClassification"]));
    let ner = with(with(ner, "vocab_size", json!(28996)), "id2label", json!({"0": "O", "1": "B", "2": "I"}));
    assert_eq!(total(ner), 109_482_240 - 590_592 - (30_522 - 28_996) * 768 + 769 * 3);
    let distilbert = json!({
        "model_type": "distilbert", "activation": "gelu", "dim": 768, "hidden_dim": 3072, "n_heads": 12,
        "n_layers": 6, "max_position_embeddings": 512, "sinusoidal_pos_embds": false, "vocab_size": 30522,
    });
    assert_eq!(total(distilbert.clone()), 66_362_880);
    // distilbert-base-uncased-finetuned-sst-2-english
    let sst2 = with(distilbert, "architectures", json!(["DistilBertForSequenceClassification"]));
    assert_eq!(total(with(sst2, "id2label", json!({"0": "NEGATIVE", "1": "POSITIVE"}))), 66_955_010);
    let vit = json!({
        "model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 768, "image_size": 224,
        "patch_size": 16, "num_channels": 3, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "num_labels": 1000, "qkv_bias": true,
    });
    assert_eq!(total(vit), 86_567_656);
}

#[test]
fn language_models() {
    let gpt2 = json!({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 1600, "n_head": 25, "n_layer": 48,
        "n_positions": 1024, "vocab_size": 50257, "activation_function": "gelu_new",
    });
    assert_eq!(total(gpt2), 1_557_611_200);
    assert_eq!(total(json!({"model_type": "gpt2"})), 124_439_808);
    assert_eq!(total(llama("llama", [4096, 32, 32, 32, 11_008, 32_000])), 6_738_415_616);
    assert_eq!(total(llama("llama", [4096, 32, 32, 8, 14_336, 128_256])), 8_030_261_248);
    assert_eq!(total(llama("llama", [2048, 22, 32, 4, 5632, 32_000])), 1_100_048_384);
    // Qwen2-0.5B has biases only for queries, keys and values.
    let qwen = with(llama("qwen2", [896, 24, 14, 2, 4864, 151_936]), "tie_word_embeddings", json!(true));
    assert_eq!(total(qwen), 494_032_768);
    let mistral = with(llama("mistral", [4096, 32, 32, 8, 14_336, 32_000]), "sliding_window", json!(4096));
    assert_eq!(total(mistral.clone()), 7_241_732_096);
    let Architecture::Decoder(config) = describe(&mistral).unwrap().architecture else { panic!() };
    assert_eq!(config.sight, Sight::Window { left: 4095, right: 0 });
}

#[test]
fn translators() {
    let t5 = json!({
        "model_type": "t5", "d_ff": 2048, "d_kv": 64, "d_model": 512, "num_heads": 8, "num_layers": 6,
        "relative_attention_num_buckets": 32, "vocab_size": 32128,
    });
    assert_eq!(total(t5), 60_506_624);
    // opus-mt-en-de has 74,410,496 parameters including its two fixed tables of 512 sinusoids.
    let marian = json!({
        "model_type": "marian", "activation_function": "swish", "d_model": 512, "encoder_layers": 6,
        "decoder_layers": 6, "encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_ffn_dim": 2048,
        "decoder_ffn_dim": 2048, "max_position_embeddings": 512, "scale_embedding": true, "vocab_size": 58101,
    });
    assert_eq!(total(marian.clone()) + 2 * 512 * 512, 74_410_496);
    let error = describe(&with(marian, "decoder_ffn_dim", json!(1))).unwrap_err().to_string();
    assert!(error.contains("decoder_ffn_dim"), "{error}");
}

#[test]
fn unknown_and_invalid_configurations_are_refused() {
    for (config, words) in [
        (json!({"model_type": "mamba"}), "bert"),
        (json!({}), "model_type"),
        (json!({"model_type": "bert", "hidden_size": -5}), "hidden_size"),
        (json!({"model_type": "bert", "hidden_act": "mish"}), "hidden_act"),
        (json!({"model_type": "vit", "patch_size": 0}), "patch_size"),
        (json!({"model_type": "t5", "feed_forward_proj": "x"}), "feed_forward_proj"),
        (json!([]), "model_type"),
    ] {
        let error = describe(&config).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
