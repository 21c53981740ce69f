//! More requests and more clients than the server can take.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Answer, Llama, golden, request, serve};

#[test]
fn overload_gives_only_refusals_and_the_server_recovers() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama"), "--max-texts", "2", "--max-queue", "3", "--log", "quiet"]);
    let asked = json!({ "prompt": "w4", "max_tokens": 200 });
    let answers: Vec<Answer> = thread::scope(|scope| {
        let asking: Vec<_> = (0..32).map(|_| scope.spawn(|| served.post("/v1/completions", &asked))).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let count = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!(
        count(200) + count(429),
        answers.len(),
        "{:?}",
        answers.iter().map(|one| one.status).collect::<Vec<_>>()
    );
    assert!(count(200) >= 2 && count(429) > 0, "{} answered, {} refused", count(200), count(429));
    for refused in answers.iter().filter(|answer| answer.status == 429) {
        assert_eq!(refused.header("retry-after"), Some("1"));
        refused.is_error(429);
    }
    let start = Instant::now();
    served.done("/v1/completions", &json!({ "prompt": "w4", "max_tokens": 1 }));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?} after an overload", start.elapsed());
}

#[test]
fn many_requests_are_answered_together() {
    let served = serve(&[&golden("sentences"), "--log", "quiet"]);
    let asked = json!({ "input": ["the cat sat", "a dog"] });
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..20).for_each(|_| drop(served.done("/v1/embeddings", &asked))));
        }
    });
    let (batches, inputs) = (served.metric("regard_batch_inputs_count"), served.metric("regard_batch_inputs_sum"));
    assert_eq!(inputs, 640.0);
    assert!(batches < inputs, "{batches} batches of {inputs} inputs");
}

#[test]
fn silent_and_slow_clients_do_not_stop_others() {
    let served = serve(&[&golden("sentences"), "--max-connections", "200", "--log", "quiet"]);
    // A thousand clients in all, more than there may be: idle ones make room. At most 650 at the same time, since a test may open
    // 1,024 files.
    let silent: Vec<_> = (0..500).map(|_| served.connect().unwrap()).collect();
    let mut slow: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = served.connect().unwrap();
            stream.write_all(b"POST /v1/embeddings HTTP/1.1\r\nhost: loc").unwrap();
            stream
        })
        .collect();
    // Clients that ask and do not read the answer.
    let deaf: Vec<_> = (0..50)
        .map(|_| {
            let mut stream = served.connect().unwrap();
            stream.write_all(&request("GET", "/metrics", &[], b"")).unwrap();
            stream
        })
        .collect();
    let start = Instant::now();
    for _ in 0..20 {
        served.done("/v1/embeddings", &json!({ "input": "a dog" }));
        slow.iter_mut().for_each(|stream| drop(stream.write(b"a")));
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?} for 20 requests", start.elapsed());
    drop(silent);
    // Clients whose bodies never end: they make room, too.
    let headers = [("content-type", "application/json"), ("content-length", "100")];
    let endless: Vec<_> = (0..350)
        .map(|_| {
            let mut stream = served.connect().unwrap();
            stream.write_all(&request("POST", "/v1/embeddings", &headers, b"{")).unwrap();
            stream
        })
        .collect();
    served.done("/v1/embeddings", &json!({ "input": "a dog" }));
    drop((slow, deaf, endless));
}

#[test]
fn a_client_that_does_not_read_its_stream_is_closed_at_the_deadline() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama"), "--log", "quiet"]);
    let asked = json!({ "prompt": "w4", "n": 40, "max_tokens": 4_000, "stream": true }).to_string();
    let headers = [("content-type", "application/json"), ("x-request-timeout", "2")];
    let mut stream = served.connect().unwrap();
    stream.write_all(&request("POST", "/v1/completions", &headers, asked.as_bytes())).unwrap();
    served.wait_for_metric("regard_texts_being_written", |rows| rows == 40.0);
    served.wait_for_metric("regard_texts_being_written", |rows| rows == 0.0);
    // Only the request for the metrics is left.
    served.wait_for_metric("regard_requests_in_flight", |requests| requests == 1.0);
}

#[test]
fn a_request_ends_at_its_deadline() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama"), "--log", "quiet"]);
    let asked = json!({ "prompt": "w4", "max_tokens": 100_000 }).to_string();
    let headers = [("content-type", "application/json"), ("x-request-timeout", "0.3")];
    served.ask("POST", "/v1/completions", &headers, asked.as_bytes()).is_error(504);
    let streamed = json!({ "prompt": "w4", "max_tokens": 100_000, "stream": true }).to_string();
    let answer = served.ask("POST", "/v1/completions", &headers, streamed.as_bytes());
    assert!(answer.status == 200 && answer.text().contains("deadline"), "{}", answer.text().len());
    served.wait_for_metric("regard_texts_being_written", |rows| rows == 0.0);
}

#[test]
fn a_connection_serves_several_requests() {
    let served = serve(&[&golden("sentences")]);
    let mut stream = served.connect().unwrap();
    for _ in 0..3 {
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx-request-id: mine-1\r\n\r\n").unwrap();
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes[..read]);
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("x-request-id: mine-1"), "{text}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_call_by_call() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama"), &golden("sentences"), "--log", "quiet"]);
    let embedded = json!({ "model": "sentences", "input": vec!["the cat sat"; 50] });
    let written = json!({ "model": "llama", "prompt": "w4 w5", "max_tokens": 20 });
    let ask = |times: usize| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..times {
                        served.done("/v1/embeddings", &embedded);
                        served.done("/v1/completions", &written);
                    }
                });
            }
        });
        served.memory()
    };
    let before = ask(100);
    let after = ask(400);
    assert!(after < before + 20_000_000, "{before} bytes, then {after}");
}
