//! How the server starts, reloads, logs and stops.

use std::io::Write;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::binary::{fails_with, regard, with_words};
use crate::client::{Answer, Llama, golden, request, serve};

#[test]
fn wrong_use_is_refused() {
    fails_with(&regard(&["serve"]), 2, &["MODEL"]);
    fails_with(&regard(&["serve", "nowhere", "--addr", "127.0.0.1:0"]), 1, &["nowhere"]);
    fails_with(&regard(&["serve", "a b=x"]), 2, &["NAME=FOLDER"]);
    fails_with(&regard(&["serve", &golden("gpt2"), "--addr", "here"]), 2, &["--addr"]);
    fails_with(&regard(&["serve", &golden("gpt2"), "--token", ""]), 2, &["token"]);
    let twice = regard(&["serve", &golden("gpt2"), &golden("gpt2"), "--addr", "127.0.0.1:0"]);
    fails_with(&twice, 1, &["gpt2 twice"]);
    let served = serve(&[&golden("sentences")]);
    let same = regard(&["serve", &golden("sentences"), "--addr", &served.addr.to_string()]);
    fails_with(&same, 1, &["cannot listen at"]);
}

#[test]
fn every_answer_has_a_line_in_the_log() {
    let served = serve(&[&golden("sentences"), "--log", "json"]);
    served.ask("GET", "/info", &[("x-request-id", "abc-1")], b"");
    served.ask("GET", "/info", &[("x-request-id", "not plain\t")], b"");
    served.get("/nothing");
    crate::binary::wait_until("three lines", || {
        served.log().iter().filter(|line| line.contains("request")).count() == 3
    });
    let lines: Vec<Value> = served.log().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let requests: Vec<&Value> = lines.iter().filter(|line| line["event"] == "request").collect();
    assert_eq!((&requests[0]["id"], &requests[0]["status"]), (&json!("abc-1"), &json!(200)));
    assert_ne!(requests[1]["id"], "not plain\t");
    assert_eq!((&requests[2]["path"], &requests[2]["status"]), (&json!("/nothing"), &json!(404)));
}

#[test]
fn a_stop_under_load_loses_no_accepted_request() {
    let llama = Llama::new();
    let mut served = serve(&[&llama.named("llama"), &golden("sentences"), "--log", "quiet"]);
    let headers = [("content-type", "application/json")];
    let long = json!({ "model": "llama", "prompt": "w4", "max_tokens": 400 }).to_string();
    let short = json!({ "model": "sentences", "input": ["a dog", "the cat"] }).to_string();
    let mut streams = Vec::new();
    for at in 0..24 {
        let (route, body) = if at % 2 == 0 { ("/v1/completions", &long) } else { ("/v1/embeddings", &short) };
        let mut stream = served.connect().unwrap();
        stream.write_all(&request("POST", route, &headers, body.as_bytes())).unwrap();
        streams.push(stream);
    }
    served.signal("TERM");
    let statuses: Vec<u16> = streams.into_iter().map(|stream| Answer::read(stream).unwrap().status).collect();
    assert_eq!(statuses, [200; 24]);
    assert_eq!(served.ended().code(), Some(143));
    assert!(served.connect().is_err());
}

#[test]
fn a_stop_ends_at_the_deadline() {
    let llama = Llama::new();
    let mut served = serve(&[&llama.named("llama"), "--drain", "1"]);
    let asked = json!({ "prompt": "w4", "max_tokens": 100_000, "stream": true }).to_string();
    let mut stream = served.connect().unwrap();
    stream
        .write_all(&request("POST", "/v1/completions", &[("content-type", "application/json")], asked.as_bytes()))
        .unwrap();
    served.wait_for_metric("regard_texts_being_written", |rows| rows == 1.0);
    served.signal("INT");
    assert_eq!(served.ended().code(), Some(130));
    assert!(served.log().iter().any(|line| line.contains("drained false")), "{:?}", served.log());
}

#[test]
fn models_are_replaced_without_dropping_a_request() {
    let llama = Llama::new();
    let other = with_words(&golden("llama3"), 48);
    let served = serve(&[&llama.named("llama"), "--log", "quiet"]);
    let asked = json!({ "prompt": "w4 w5", "max_tokens": 300, "temperature": 0 });
    let before = served.done("/v1/completions", &asked)["choices"][0]["text"].clone();
    let statuses: Vec<u16> = thread::scope(|scope| {
        let asking: Vec<_> = (0..6)
            .map(|_| scope.spawn(|| (0..8).map(|_| served.post("/v1/completions", &asked).status).collect::<Vec<_>>()))
            .collect();
        thread::sleep(Duration::from_millis(100));
        for file in ["model.safetensors", "config.json"] {
            let part = llama.path().join("part");
            std::fs::copy(other.path().join(file), &part).unwrap();
            std::fs::rename(&part, llama.path().join(file)).unwrap();
        }
        served.signal("HUP");
        asking.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(statuses, [200; 48]);
    served.wait_for_metric("regard_reloads_total", |reloads| reloads == 1.0);
    let after = served.done("/v1/completions", &asked)["choices"][0]["text"].clone();
    assert_ne!(before, after);
    // A damaged folder leaves the old version in place.
    std::fs::write(llama.path().join("model.safetensors"), b"nonsense").unwrap();
    served.signal("HUP");
    crate::binary::wait_until("a failed reload", || {
        served.log().iter().filter(|line| line.contains("reload")).count() == 2
    });
    assert_eq!(served.done("/v1/completions", &asked)["choices"][0]["text"], after);
}

#[test]
fn changed_files_are_loaded_again() {
    let llama = Llama::new();
    let other = with_words(&golden("llama3"), 48);
    let served = serve(&[&llama.named("llama"), "--reload"]);
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(other.path().join(file), llama.path().join(file)).unwrap();
    }
    served.wait_for_metric("regard_reloads_total", |reloads| reloads == 1.0);
}
