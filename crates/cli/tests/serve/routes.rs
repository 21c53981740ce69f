//! What each route answers.

use std::io::{Read, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::binary::{document, documents, done, path, regard, sets, write};
use crate::client::{Llama, golden, request, serve};

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

#[test]
fn the_server_tells_about_itself() {
    let served = serve(&[&golden("sentences"), &format!("tagger={}", golden("bert-tagger"))]);
    for path in ["/livez", "/readyz", "/health"] {
        assert_eq!(served.get(path).status, 200);
    }
    let models = served.get("/v1/models").json();
    let names: Vec<&str> = models["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["sentences", "tagger"]);
    assert_eq!(served.get("/v1/models/tagger").json()["object"], "model");
    served.get("/v1/models/other").is_error(404);
    let info = served.get("/info").json();
    assert_eq!(info["models"][0]["embedding_dimensions"], 16);
    assert!(info["models"][1]["attention"].as_str().unwrap().contains("0.0"), "{info}");
    let metrics = served.get("/metrics").text();
    for name in ["regard_requests_total", "regard_request_seconds_bucket", "regard_queue_length", "regard_cache_bytes"]
    {
        assert!(metrics.contains(name), "{metrics}");
    }
    let openapi = served.get("/openapi.json").json();
    for route in openapi["paths"].as_object().unwrap().keys() {
        // Runs are shown by a server that has some.
        if route.starts_with("/v1/runs") {
            continue;
        }
        let route = route.replace("{model}", "tagger").replace("{file}", "style.css");
        assert_ne!(served.get(&route).status, 404, "{route}");
    }
    let mut stream = served.connect().unwrap();
    stream.write_all(&request("HEAD", "/livez", &[], b"")).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn embeddings_are_those_of_the_command() {
    let folder = golden("sentences");
    let served = serve(&[&folder]);
    let texts = ["the cat sat", "a dog", "the the the cat a dog sat"];
    let arguments = [&["embed", &folder][..], &texts, &["--json"]].concat();
    let wanted = document(&done(&regard(&arguments)));
    let ask = |more: Value| {
        let mut request = json!({ "model": "sentences", "input": texts });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        served.done("/v1/embeddings", &request)
    };
    let found = ask(json!({}));
    for (at, wanted) in wanted["embeddings"].as_array().unwrap().iter().enumerate() {
        assert_eq!(found["data"][at]["index"], at);
        assert_eq!(floats(&found["data"][at]["embedding"]), floats(wanted));
    }
    assert!(found["usage"]["prompt_tokens"].as_u64().unwrap() > 6);
    let encoded = ask(json!({ "encoding_format": "base64", "dimensions": 16, "user": "me" }));
    let bytes = STANDARD.decode(encoded["data"][1]["embedding"].as_str().unwrap()).unwrap();
    let numbers: Vec<f32> = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    assert_eq!(numbers, floats(&found["data"][1]["embedding"]));
    let one = served.done("/v1/embeddings", &json!({ "input": "a dog" }));
    assert_eq!(one["data"].as_array().unwrap().len(), 1);
    let ids = served.done("/v1/embeddings", &json!({ "input": [[1, 5, 2], [1, 6, 7, 2]] }));
    assert_eq!(ids["usage"]["total_tokens"], 7);
    let single = served.done("/v1/embeddings", &json!({ "input": [1, 5, 2] }));
    assert_eq!(single["data"].as_array().unwrap().len(), 1);

    for (request, status, param) in [
        (json!({ "input": "a", "dimensions": 8 }), 422, json!("dimensions")),
        (json!({ "input": "a", "model": "other" }), 404, json!("model")),
        (json!({ "input": [] }), 422, json!("input")),
        (json!({ "input": [99] }), 422, json!("input[0]")),
        (json!({ "input": "a", "encoding_format": "hex" }), 422, json!("encoding_format")),
        (json!({ "input": "a", "colour": "red" }), 422, json!("colour")),
        (json!({ "model": "sentences" }), 422, Value::Null),
    ] {
        assert_eq!(served.post("/v1/embeddings", &request).is_error(status)["param"], param, "{request}");
    }
}

/// A product whose sums depend on the number of rows would show here.
#[test]
fn an_embedding_has_the_same_bits_alone_and_in_a_batch() {
    let served = serve(&[&golden("sentences")]);
    let texts: Vec<String> =
        (0..40).map(|n| "the cat sat a dog ".repeat(n % 3 + 1) + ["cat", "dog", "a"][n % 3]).collect();
    let together = served.done("/v1/embeddings", &json!({ "input": texts, "encoding_format": "base64" }));
    for (at, text) in texts.iter().enumerate() {
        let alone = served.done("/v1/embeddings", &json!({ "input": text, "encoding_format": "base64" }));
        assert_eq!(alone["data"][0]["embedding"], together["data"][at]["embedding"], "text {at} of {}", texts.len());
    }
}

#[test]
fn documents_are_ranked_by_similarity() {
    let served = serve(&[&golden("sentences")]);
    let request = json!({ "query": "a dog", "documents": ["the cat sat", "a dog", "sat"], "return_documents": true });
    let found = served.done("/v1/rerank", &request);
    assert_eq!(found["results"][0]["index"], 1);
    assert_eq!(found["results"][0]["document"], "a dog");
    assert!((found["results"][0]["relevance_score"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{found}");
    assert_eq!(found["results"].as_array().unwrap().len(), 3);
    let top = served.done("/v1/rerank", &json!({ "query": "a", "documents": ["a", "cat"], "top_n": 1 }));
    assert_eq!(top["results"].as_array().unwrap().len(), 1);
    served.post("/v1/rerank", &json!({ "query": "a", "documents": [] })).is_error(422);
    let llama = Llama::new();
    let other = serve(&[&golden("vit"), &llama.named("llama")]);
    other.post("/v1/rerank", &json!({ "model": "vit", "query": "a", "documents": ["a"] })).is_error(400);
}

#[test]
fn predictions_are_those_of_the_command() {
    let folder = golden("bert-tagger");
    let served = serve(&[&folder]);
    let wanted = documents(&done(&regard(&["predict", &folder, "the cat", "a dog sat", "--without", "0.1", "--json"])));
    let request = json!({ "inputs": ["the cat", {"text": "a dog sat"}], "without": "0.1" });
    let found = served.done("/v1/predict", &request);
    for (at, wanted) in wanted.iter().enumerate() {
        assert_eq!(found["results"][at]["tags"], wanted["tags"]);
        assert_eq!(found["results"][at]["without"]["probabilities"], wanted["without"]["probabilities"]);
    }
    // One bad input does not fail the others.
    let mixed = served.done("/v1/predict", &json!({ "inputs": ["the cat", 3, "", {"image": "x"}, "a dog"] }));
    let is_error: Vec<bool> = mixed["results"].as_array().unwrap().iter().map(|one| !one["error"].is_null()).collect();
    assert_eq!(is_error[..2], [false, true], "{mixed}");
    assert_eq!((is_error[3], is_error[4]), (true, false), "{mixed}");
    assert_eq!(mixed["results"][1]["error"]["param"], "inputs[1]");
    served.post("/v1/predict", &json!({ "inputs": ["a"], "without": "9.9" })).is_error(422);
    served.post("/v1/predict", &json!({ "inputs": [] })).is_error(422);
}

#[test]
fn pictures_come_as_base64_and_paths_are_not_followed() {
    let served = serve(&[&golden("vit")]);
    let place = tempfile::tempdir().unwrap();
    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let picture = std::fs::read_dir(picture).unwrap().flatten().map(|file| file.path());
    let file = picture.into_iter().find(|file| file.extension().is_some_and(|kind| kind == "png"));
    let bytes = match file {
        Some(file) => std::fs::read(file).unwrap(),
        None => {
            done(&regard(&["show", "scaling", "--out", path(&place.path().join("a.png"))]));
            std::fs::read(place.path().join("a.png")).unwrap()
        }
    };
    let written = write(&place, "b.png", &bytes);
    let found = served.done(
        "/v1/predict",
        &json!({ "inputs": [{ "image": STANDARD.encode(&bytes) }, written, { "image": written }] }),
    );
    assert!(found["results"][0]["label"].is_string() || found["results"][0]["error"].is_object(), "{found}");
    for refused in [&found["results"][1], &found["results"][2]] {
        assert!(refused["error"]["message"].is_string(), "{found}");
    }
    // The same pictures as files of a form.
    let file = |name: &str, content: &[u8]| {
        let head = format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"b.png\"\r\n\r\n");
        [head.as_bytes(), content, b"\r\n"].concat()
    };
    let form = [file("image", &bytes), file("image", b"none"), b"--x--\r\n".to_vec()].concat();
    let kind = [("content-type", "multipart/form-data; boundary=x")];
    let answer = served.ask("POST", "/v1/predict", &kind, &form);
    assert_eq!(answer.json()["results"][0], found["results"][0], "{}", answer.text());
    assert!(answer.json()["results"][1]["error"].is_object(), "{}", answer.text());
    let look = |input: &[u8]| served.ask("POST", "/v1/attention", &kind, &[input, b"--x--\r\n"].concat());
    let seen = served.done("/v1/attention", &json!({ "input": { "image": STANDARD.encode(&bytes) } }));
    assert_eq!(look(&file("image", &bytes)).json(), seen);
    look(&[file("image", &bytes), file("image", &bytes)].concat()).is_error(400);
    look(&[file("image", &bytes), file("secret", b"3")].concat()).is_error(422);
}

#[test]
fn attention_maps_can_be_chosen() {
    let folder = golden("bert-tagger");
    let served = serve(&[&folder]);
    let all = served.done("/v1/attention", &json!({ "input": "the cat sat" }));
    let tokens = all["tokens"].as_array().unwrap().len();
    let maps = all["maps"].as_array().unwrap();
    assert!(maps.len() > 1 && all["prediction"]["tags"].is_array(), "{all}");
    for map in maps {
        for row in map["rows"].as_array().unwrap() {
            assert!((floats(row).iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
        assert_eq!(map["rows"].as_array().unwrap().len(), tokens);
    }
    let request = json!({ "input": "the cat sat", "layers": ["0.1"], "rows": [1, 3], "without": "0.0" });
    let one = served.done("/v1/attention", &request);
    assert_eq!(one["maps"].as_array().unwrap().len(), 1);
    let whole = maps.iter().find(|map| map["name"] == "0.1").unwrap();
    assert_eq!((&one["maps"][0]["name"], &one["maps"][0]["first_row"]), (&json!("0.1"), &json!(1)));
    assert_eq!(one["maps"][0]["rows"], json!([whole["rows"][1], whole["rows"][2]]));
    served.post("/v1/attention", &json!({ "input": "a", "layers": ["7"] })).is_error(422);
    served.post("/v1/attention", &json!({ "input": "a", "rows": [2, 2] })).is_error(422);
}

#[test]
fn models_trained_here_are_served() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("composer");
    let small = sets(&["auto=off", "data.size=4", "model.d_model=16", "model.n_heads=2", "model.d_ff=32"]);
    let arguments = [&["train", "compose", "--steps", "3", "--out", path(&folder)][..], &small].concat();
    done(&regard(&arguments));
    let served = serve(&[path(&folder)]);
    let input = "0 1 2 3 | 3 2 1 0";
    let wanted = documents(&done(&regard(&["predict", path(&folder), input, "--json"])));
    let request = json!({ "inputs": [{ "numbers": [[0, 1, 2, 3], [3, 2, 1, 0]] }, input, { "numbers": [[9], [9]] }] });
    let found = served.done("/v1/predict", &request);
    assert_eq!(found["results"][0]["values"], wanted[0]["values"]);
    assert_eq!(found["results"][1]["values"], wanted[0]["values"]);
    assert!(found["results"][2]["error"].is_object());
    served.post("/v1/embeddings", &json!({ "input": "a" })).is_error(400);
    served.post("/v1/completions", &json!({ "prompt": input })).is_error(400);
}
