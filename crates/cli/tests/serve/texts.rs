//! Texts that a model writes.

use std::io::{BufReader, Write};
use std::thread;

use serde_json::{Value, json};

use crate::binary::{document, done, path, regard, with_words};
use crate::client::{Answer, Llama, golden, read_chunk, request, serve};

#[test]
fn completions_are_those_of_the_command() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama")]);
    let folder = llama.path();
    for (prompt, temperature, seed) in [("w4 w5 w6", "0", "0"), ("w4 w5 w6", "0.9", "7"), ("w9", "1.3", "8")] {
        let arguments = [
            "generate",
            path(&folder),
            prompt,
            "--tokens",
            "40",
            "--temperature",
            temperature,
            "--seed",
            seed,
            "--json",
        ];
        let wanted = document(&done(&regard(&arguments)));
        let (temperature, seed): (f64, u64) = (temperature.parse().unwrap(), seed.parse().unwrap());
        let asked =
            json!({ "model": "llama", "prompt": prompt, "max_tokens": 40, "temperature": temperature, "seed": seed });
        let found = served.done("/v1/completions", &asked);
        assert_eq!(found["choices"][0]["text"], wanted["output"]);
        assert_eq!(found["choices"][0]["finish_reason"], "length");
        assert_eq!(found["usage"]["completion_tokens"], 40);
        let mut streamed = asked.clone();
        streamed["stream"] = json!(true);
        streamed["stream_options"] = json!({ "include_usage": true });
        let events = served.post("/v1/completions", &streamed).events();
        assert_eq!(joined(&events, 0), wanted["output"].as_str().unwrap());
        assert_eq!(events.last().unwrap()["usage"], found["usage"]);
    }
}

fn joined(events: &[Value], index: usize) -> String {
    let choices = events.iter().flat_map(|event| event["choices"].as_array().unwrap());
    let own = choices.filter(|choice| choice["index"] == index);
    own.filter_map(|choice| choice["text"].as_str().or(choice["delta"]["content"].as_str())).collect()
}

#[test]
fn texts_are_the_same_whatever_else_is_written() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama")]);
    // Prompts of different lengths, some read in several parts, which join while others are being written.
    let prompts: Vec<String> = (0..12)
        .map(|n| (0..[3, 200, 17, 130][n % 4]).map(|at| format!("w{} ", (at * 7 + n * 5) % 48)).collect::<String>())
        .collect();
    let ask =
        |prompt: &String, seed: usize| json!({ "prompt": prompt, "max_tokens": 60, "temperature": 0.8, "seed": seed });
    let alone: Vec<Value> =
        prompts.iter().enumerate().map(|(n, prompt)| served.done("/v1/completions", &ask(prompt, n))).collect();
    let together: Vec<Value> = thread::scope(|scope| {
        let asked: Vec<_> = prompts
            .iter()
            .enumerate()
            .map(|(n, prompt)| {
                scope.spawn({
                    let served = &served;
                    move || served.done("/v1/completions", &ask(prompt, n))
                })
            })
            .collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (n, (alone, together)) in alone.iter().zip(&together).enumerate() {
        assert_eq!(alone["choices"], together["choices"], "prompt {n}");
    }
    // A long prompt gives the same text as the command, which reads it at once.
    let folder = llama.path();
    let arguments = ["generate", path(&folder), prompts[1].trim(), "--tokens", "60", "--temperature", "0", "--json"];
    let wanted = document(&done(&regard(&arguments)));
    let found =
        served.done("/v1/completions", &json!({ "prompt": prompts[1].trim(), "max_tokens": 60, "temperature": 0 }));
    assert_eq!(found["choices"][0]["text"], wanted["output"]);
}

#[test]
fn several_texts_can_be_asked_for() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama")]);
    let asked = json!({ "prompt": ["w4 w5", "w6"], "n": 2, "max_tokens": 8, "temperature": 1.0, "seed": 3 });
    let found = served.done("/v1/completions", &asked);
    let choices = found["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 4);
    let single = json!({ "prompt": "w4 w5", "max_tokens": 8, "temperature": 1.0, "seed": 4 });
    assert_eq!(served.done("/v1/completions", &single)["choices"][0]["text"], choices[1]["text"]);
    let ids = json!({ "prompt": [[4, 5], [6]], "n": 2, "max_tokens": 8, "temperature": 1.0, "seed": 3 });
    assert_eq!(served.done("/v1/completions", &ids)["choices"], found["choices"]);
    let mut streamed = asked.clone();
    streamed["stream"] = json!(true);
    let events = served.post("/v1/completions", &streamed).events();
    for (at, choice) in choices.iter().enumerate() {
        assert_eq!(joined(&events, at), choice["text"].as_str().unwrap());
    }
}

#[test]
fn texts_end_at_strings_and_list_probabilities() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama")]);
    let asked = json!({ "prompt": "w4 w5", "max_tokens": 20, "temperature": 0, "logprobs": 3 });
    let whole = served.done("/v1/completions", &asked);
    let logs = &whole["choices"][0]["logprobs"];
    assert_eq!(logs["tokens"].as_array().unwrap().len(), 20);
    assert_eq!(logs["top_logprobs"][0].as_object().unwrap().len(), 3);
    // Greedy texts take the most probable token.
    let most = logs["top_logprobs"][0].as_object().unwrap().values().map(|x| x.as_f64().unwrap()).fold(-99.0, f64::max);
    assert_eq!(logs["token_logprobs"][0].as_f64().unwrap(), most);
    let text = whole["choices"][0]["text"].as_str().unwrap();
    let third = text.split_whitespace().nth(2).unwrap();
    let stop = format!(" {third}");
    let cut = served
        .done("/v1/completions", &json!({ "prompt": "w4 w5", "max_tokens": 20, "temperature": 0, "stop": [stop] }));
    assert_eq!(cut["choices"][0]["finish_reason"], "stop");
    let found = cut["choices"][0]["text"].as_str().unwrap();
    assert!(text.starts_with(found) && !found.contains(&stop), "{found:?} of {text:?}");
}

#[test]
fn conversations_follow_the_template() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama"), &golden("gpt2")]);
    let messages = json!([{ "role": "user", "content": "w4 w5" }, { "role": "assistant", "content": [{ "type": "text", "text": "w6" }] }]);
    let asked = json!({ "model": "llama", "messages": messages, "max_tokens": 10, "temperature": 0, "logprobs": true, "top_logprobs": 2 });
    let found = served.done("/v1/chat/completions", &asked);
    let plain = json!({ "model": "llama", "prompt": "w1 w4 w5 w2 w1 w6 w2 w3", "max_tokens": 10, "temperature": 0 });
    let wanted = served.done("/v1/completions", &plain);
    assert_eq!(found["choices"][0]["message"]["content"], wanted["choices"][0]["text"]);
    assert_eq!(found["usage"], wanted["usage"]);
    assert_eq!(found["choices"][0]["logprobs"]["content"][0]["top_logprobs"].as_array().unwrap().len(), 2);
    let mut streamed = asked.clone();
    streamed["stream"] = json!(true);
    let events = served.post("/v1/chat/completions", &streamed).events();
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(joined(&events, 0), wanted["choices"][0]["text"].as_str().unwrap());
    assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "length");
    let refused = json!({ "model": "llama", "messages": [{ "role": "system", "content": "w4" }] });
    let error = served.post("/v1/chat/completions", &refused).is_error(422);
    assert!(error["message"].as_str().unwrap().contains("no system here"), "{error}");
    let other = json!({ "model": "gpt2", "messages": messages });
    served.post("/v1/chat/completions", &other).is_error(400);
    let tools = json!({ "model": "llama", "messages": messages, "tools": [] });
    served.post("/v1/chat/completions", &tools).is_error(422);
}

#[test]
fn translators_write_alone() {
    let place = with_words(&golden("marian"), 40);
    let served = serve(&[&format!("marian={}", path(place.path()))]);
    let wanted = document(&done(&regard(&["generate", path(place.path()), "w4 w5 w6", "--tokens", "9", "--json"])));
    let asked = json!({ "prompt": "w4 w5 w6", "max_tokens": 9 });
    let found = served.done("/v1/completions", &asked);
    assert_eq!((&found["choices"][0]["text"], &found["usage"]), (&wanted["output"], &Value::Null));
    let mut streamed = asked.clone();
    streamed["stream"] = json!(true);
    assert_eq!(joined(&served.post("/v1/completions", &streamed).events(), 0), wanted["output"].as_str().unwrap());
    served.post("/v1/chat/completions", &json!({ "messages": [{ "role": "user", "content": "w4" }] })).is_error(400);
}

/// The text of a client that has gone would otherwise be written to its end.
#[test]
fn clients_that_leave_free_their_places() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama"), "--max-texts", "8"]);
    let asked = json!({ "prompt": "w4", "max_tokens": 100_000, "temperature": 1.0, "stream": true }).to_string();
    let headers = [("content-type", "application/json")];
    let mut streams = Vec::new();
    for _ in 0..8 {
        let mut stream = served.connect().unwrap();
        stream.write_all(&request("POST", "/v1/completions", &headers, asked.as_bytes())).unwrap();
        streams.push(stream);
    }
    served.wait_for_metric("regard_texts_being_written", |rows| rows == 8.0);
    assert!(served.metric("regard_cache_bytes") > 0.0);
    // A ninth text waits for a place, and gets one when the others have gone.
    let waiting = thread::scope(|scope| {
        let ninth = scope.spawn(|| served.done("/v1/completions", &json!({ "prompt": "w4", "max_tokens": 3 })));
        served.wait_for_metric("regard_queue_length", |waiting| waiting == 1.0);
        drop(streams);
        ninth.join().unwrap()
    });
    assert_eq!(waiting["usage"]["completion_tokens"], 3);
    served.wait_for_metric("regard_texts_being_written", |rows| rows == 0.0);
    assert_eq!(served.metric("regard_cache_bytes"), 0.0);
}

#[test]
fn a_long_prompt_does_not_stall_a_stream() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama")]);
    let headers = [("content-type", "application/json")];
    let asked = json!({ "prompt": "w4", "max_tokens": 100_000, "temperature": 1.0, "stream": true }).to_string();
    let mut stream = served.connect().unwrap();
    stream.write_all(&request("POST", "/v1/completions", &headers, asked.as_bytes())).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    }
    read_chunk(&mut reader).unwrap().unwrap();
    let written = served.metric("regard_tokens_written_total");
    let prompt: String = (0..4_000).map(|at| format!("w{} ", at % 48)).collect();
    served.done("/v1/completions", &json!({ "prompt": prompt, "max_tokens": 1 }));
    // The prompt took at least 4,000 / 256 steps, and the stream had a token in each.
    let between = served.metric("regard_tokens_written_total") - written;
    assert!(between >= 15.0, "{between} tokens while a prompt was read");
}

#[test]
fn wishes_that_cannot_be_followed_are_refused() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama"), "--cache", "1"]);
    for (more, status) in [
        (json!({ "temperature": -1 }), 422),
        (json!({ "top_p": 2 }), 422),
        (json!({ "top_k": 0 }), 422),
        (json!({ "n": 0 }), 422),
        (json!({ "n": 1000 }), 422),
        (json!({ "max_tokens": 0 }), 422),
        (json!({ "max_tokens": -1 }), 422),
        (json!({ "max_tokens": 200_000_000 }), 413),
        (json!({ "max_tokens": 100_000 }), 413),
        (json!({ "logprobs": 99 }), 422),
        (json!({ "echo": true }), 422),
        (json!({ "best_of": 3 }), 422),
        (json!({ "presence_penalty": 0.5 }), 422),
        (json!({ "logit_bias": { "5": 1 } }), 422),
        (json!({ "stop": [""] }), 422),
        (json!({ "prompt": [] }), 422),
        (json!({ "prompt": [999] }), 422),
    ] {
        let mut asked = json!({ "prompt": "w4" });
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer: Answer = served.post("/v1/completions", &asked);
        assert_eq!(answer.status, status, "{more}: {}", answer.text());
        answer.is_error(status);
    }
}
