//! Tests of presets against published totals and those of a textbook exercise.

use regard_inspect::count::{CountError, PRESETS, count, preset};

use super::{counted, parameters, part};

const TOTALS: &[(&str, u128)] = &[
    // 37,000 · 512, six layers of 3,152,384 and six of 4,204,032. The paper says 65 M, with its own vocabulary.
    ("transformer-base", 63_082_496),
    ("transformer-big", 214_245_376),
    ("worked-example", 218_221_872),
    ("gpt2", 124_439_808),
    ("gpt2-medium", 354_823_168),
    ("gpt2-large", 774_030_080),
    ("gpt2-xl", 1_557_611_200),
    ("bert-base-uncased", 109_482_240),
    ("bert-large-uncased", 335_141_888),
    ("distilbert-base-uncased", 66_362_880),
    ("minilm-l6", 22_713_216),
    ("t5-small", 60_506_624),
    ("llama-2-7b", 6_738_415_616),
    ("llama-3-8b", 8_030_261_248),
    ("mistral-7b", 7_241_732_096),
    ("tinyllama-1.1b", 1_100_048_384),
    ("vit-base-16", 86_567_656),
];

#[test]
fn presets_have_their_published_totals() {
    for (name, total) in TOTALS {
        assert_eq!(counted(&preset(name).unwrap()).parameters(), *total, "{name}");
    }
    assert_eq!(TOTALS.len(), PRESETS.len(), "a preset has no known total");
}

#[test]
fn the_textbook_exercise_has_its_totals() {
    let count = counted(&preset("worked-example").unwrap());
    assert_eq!(part(&count, &["encoder", "layers"]).each.parameters, 6_301_440);
    assert_eq!(parameters(&count, &["encoder"]), 81_131_520);
    assert_eq!(parameters(&count, &["decoder", "output"]), 30_750_000);
    assert_eq!(part(&count, &["decoder", "layers"]).each.parameters, 9_452_544);
    assert_eq!(parameters(&count, &["decoder"]), 137_090_352);
    assert_eq!(count.parameters(), 218_221_872);
}

#[test]
fn memory_and_operations_agree_with_known_numbers() {
    let llama = counted(&preset("llama-2-7b").unwrap());
    // 4,096 tokens: twice the widely quoted 2 GiB in half precision.
    assert_eq!(llama.memory.kv_cache, 4 << 30);
    assert_eq!(llama.memory.weights, 4 * 6_738_415_616);
    assert_eq!(llama.memory.logits, 4 * 4096 * 32_000);
    // A widely quoted number is 17.58 G multiply-adds (with elementwise work and norms, by some tools).
    let vit = counted(&preset("vit-base-16").unwrap());
    let giga = vit.flops.forward as f64 / 2e9;
    assert!((17.5..17.6).contains(&giga), "{giga}");
    assert_eq!(vit.memory.kv_cache, 0);
}

#[test]
fn the_error_of_an_unknown_preset_lists_all() {
    let error = preset("gpt3").unwrap_err();
    assert!(matches!(&error, CountError::UnknownPreset { .. }));
    assert!(PRESETS.iter().all(|preset| error.to_string().contains(preset.name)), "{error}");
    assert!(count(&preset("gpt2").unwrap()).is_ok());
}
