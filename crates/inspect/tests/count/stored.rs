//! Tests of the headers of safetensors files.

use regard_inspect::count::{Stored, shards};
use serde_json::json;

#[test]
fn parameters_and_buffers_are_distinguished() {
    let header = json!({
        "__metadata__": {"format": "pt"},
        "h.0.attn.bias": {"dtype": "F32", "shape": [1, 1, 8, 8], "data_offsets": [0, 256]},
        "h.0.attn.c_attn.bias": {"dtype": "F32", "shape": [12], "data_offsets": [256, 304]},
        "wte.weight": {"dtype": "BF16", "shape": [5, 4], "data_offsets": [304, 344]},
        "embeddings.position_ids": {"dtype": "I64", "shape": [1, 6], "data_offsets": [344, 392]},
        "scalar": {"dtype": "F16", "shape": [], "data_offsets": [392, 394]},
    });
    let mut stored = Stored::default();
    stored.add(header.to_string().as_bytes()).unwrap();
    assert_eq!((stored.parameters, stored.buffers), (33, 70));
    assert_eq!(stored.dtypes, [("BF16", 20), ("F16", 1), ("F32", 12)].map(|(t, n)| (t.to_string(), n)).into());
    assert_eq!(stored.difference(33), None);
    assert!(stored.difference(30).unwrap().starts_with("3 more than counted; likely a tied output"));
    assert!(stored.difference(40).unwrap().starts_with("7 fewer"));
}

#[test]
fn damaged_headers_are_refused() {
    for header in
        ["", "{", "[]", r#"{"a": 3}"#, r#"{"a": {"dtype": "F32"}}"#, r#"{"a": {"dtype": "F32", "shape": [-1]}}"#]
    {
        assert!(Stored::default().add(header.as_bytes()).is_err(), "{header}");
    }
    let huge = json!({"a": {"dtype": "F32", "shape": [u64::MAX, u64::MAX, u64::MAX]}}).to_string();
    assert!(Stored::default().add(huge.as_bytes()).is_err());
}

#[test]
fn an_index_names_files_of_its_folder() {
    let index =
        json!({"weight_map": {"b": "model-2.safetensors", "a": "model-1.safetensors", "c": "model-2.safetensors"}});
    assert_eq!(shards(&index).unwrap(), ["model-1.safetensors", "model-2.safetensors"]);
    for name in ["../secret", "/etc/passwd", "", "a/b", ".."] {
        assert!(shards(&json!({"weight_map": {"a": name}})).is_err(), "{name}");
    }
    assert!(shards(&json!({})).is_err());
}
