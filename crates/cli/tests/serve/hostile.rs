//! Requests that are wrong in every way: each gets an error of the one shape, and the server lives on.

use std::io::Write;
use std::net::Shutdown;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use serde_json::{Value, json};

use crate::client::{Answer, Llama, golden, request, serve};

const POSTS: [&str; 10] = [
    "/v1/embeddings",
    "/v1/predict",
    "/v1/attention",
    "/v1/rerank",
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/cost",
    "/v1/lens",
    "/v1/show",
    "/v1/icl",
];

/// Bodies that no route takes.
fn bodies() -> Vec<Vec<u8>> {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(5_000), close.repeat(5_000)).into_bytes();
    let mut all: Vec<Vec<u8>> = [
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "null",
        "true",
        "3",
        "\"a\"",
        "[]",
        "{}",
        "{\"a\"}",
        "{\"a\":}",
        "{,}",
        "{\"input\": \"a\",}",
        "{'input': 'a'}",
        "nan",
        "{\"input\": NaN}",
        "{\"input\": \"a\"} {}",
        "{\"input\": \"\\ud800\"}",
        "\u{feff}{}",
        "-",
        "1e999",
        "{\"input\": 1e999}",
        "{\"input\": 99999999999999999999999}",
        "{\"model\": 3}",
        "{\"model\": {}}",
        "{\"model\": null}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    all.extend([
        b"\xff\xfe{}".to_vec(),
        b"{\"input\": \"\xc3\x28\"}".to_vec(),
        b"\x00".to_vec(),
        b"\x1f\x8b\x08\x00".to_vec(),
    ]);
    all.extend([deep("[", "]"), deep("{\"a\":", "}"), deep("{\"input\":[", "]}"), "[".repeat(100_000).into_bytes()]);
    all
}

#[test]
fn malformed_bodies_give_errors_of_the_client() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama"), &golden("sentences"), &golden("vit"), "--log", "quiet"]);
    let mut tried = 0;
    let mut check = |path: &str, answer: &Answer, what: &str| {
        tried += 1;
        assert!((400..500).contains(&answer.status), "{path} {what}: {} {}", answer.status, answer.text());
        answer.is_error(answer.status);
    };
    let headers = [("content-type", "application/json")];
    for path in POSTS {
        for body in bodies() {
            let what = String::from_utf8_lossy(&body[..body.len().min(60)]).to_string();
            check(path, &served.ask("POST", path, &headers, &body), &what);
        }
        for kind in ["text/plain", "", "application/xml", "multipart/form-data; boundary=x", "application/jsonx"] {
            check(path, &served.ask("POST", path, &[("content-type", kind)], b"{\"input\": \"a\"}"), kind);
        }
        let form = [("content-type", "multipart/form-data; boundary=x")];
        let whole = b"--x\r\ncontent-disposition: form-data; name=\"image\"\r\n\r\nPNG\r\n--x--";
        for length in [0, 3, 5, 30, 52, 58, whole.len() - 2] {
            check(path, &served.ask("POST", path, &form, &whole[..length]), "truncated form");
        }
        for wrong in
            [&b"--x\r\n\r\n\r\n--x--"[..], b"--x--", b"--x\r\n\xff: \xff\r\n\r\n\r\n--x--", b"--y--", &[b'-'; 5_000]]
        {
            check(path, &served.ask("POST", path, &form, wrong), "broken form");
        }
        check(path, &served.ask("DELETE", path, &headers, b"{}"), "method");
        // Mechanisms are listed by GET.
        if path != "/v1/show" {
            check(path, &served.ask("GET", path, &[], b""), "method");
        }
    }
    // Fields of wrong types and sizes.
    let wrong = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!({}),
        json!([[]]),
        json!([null]),
        json!({ "a": [] }),
    ];
    for (path, whole, fields) in [
        (
            "/v1/embeddings",
            json!({ "model": "sentences", "input": "a" }),
            &["input", "encoding_format", "dimensions", "model"][..],
        ),
        (
            "/v1/rerank",
            json!({ "model": "sentences", "query": "a", "documents": ["a"] }),
            &["query", "documents", "model"],
        ),
        ("/v1/predict", json!({ "model": "sentences", "inputs": ["a"] }), &["inputs", "model"]),
        (
            "/v1/attention",
            json!({ "model": "sentences", "input": "a" }),
            &["input", "model", "columns", "format", "layers", "without"],
        ),
        ("/v1/lens", json!({ "model": "llama", "input": "w1" }), &["input", "top", "model"]),
        ("/v1/cost", json!({ "model": "llama", "input": "w1" }), &["input", "mode", "model"]),
        ("/v1/show", json!({ "mechanism": "softmax" }), &["mechanism", "scores", "seed", "other"]),
        ("/v1/icl", json!({ "d": 2, "n": 2, "p": 2, "lambda": 1 }), &["d", "n", "p", "seed"]),
        (
            "/v1/completions",
            json!({ "model": "llama", "prompt": "w1", "max_tokens": 1 }),
            &["prompt", "stop", "max_tokens", "n", "model"],
        ),
        ("/v1/chat/completions", json!({ "model": "llama", "messages": [], "max_tokens": 1 }), &["messages", "n"]),
    ] {
        for field in fields {
            for value in &wrong {
                let mut asked = whole.clone();
                asked[field] = value.clone();
                let answer = served.post(path, &asked);
                // A missing optional field is none, and a prompt may be missing.
                if value.is_null() && answer.status == 200 {
                    continue;
                }
                // Each input of a prediction has its own error.
                if path == "/v1/predict" && answer.status == 200 {
                    let results = answer.json()["results"].clone();
                    assert!(
                        results.as_array().unwrap().iter().all(|one| one["error"].is_object()),
                        "{asked}: {results}"
                    );
                    continue;
                }
                check(path, &answer, &asked.to_string());
            }
        }
    }
    for picture in pictures() {
        let asked = json!({ "model": "vit", "inputs": [{ "image": picture }] });
        let answer = served.post("/v1/predict", &asked);
        let is_refused = answer.status == 200 && answer.json()["results"][0]["error"].is_object();
        assert!(is_refused || (400..500).contains(&answer.status), "{} {}", answer.status, answer.text());
        tried += 1;
    }
    assert!(tried >= 200, "{tried} bodies");
    assert_eq!(served.metric("regard_failures_total"), 0.0);
    assert_eq!(served.metric("regard_panics_total"), 0.0);
    served.done("/v1/embeddings", &json!({ "model": "sentences", "input": "a" }));
}

/// Returns a PNG with valid checksums, which claims a size and whose data unpack to `unpacked` bytes.
fn png((width, height): (u32, u32), unpacked: usize) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..unpacked >> 20 {
        packer.write_all(&zeros).unwrap();
    }
    packer.write_all(&zeros[..unpacked % (1 << 20)]).unwrap();
    let head = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    let mut whole = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [(b"IHDR", head), (b"IDAT", packer.finish().unwrap()), (b"IEND", Vec::new())] {
        let mut sum = Crc::new();
        sum.update(kind);
        sum.update(&data);
        whole.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        whole.extend([&kind[..], &data, &sum.sum().to_be_bytes()].concat());
    }
    whole
}

/// Pictures that are none, that are cut off, or that would unpack to far more than they are.
fn pictures() -> Vec<Value> {
    let encode = |bytes: &[u8]| json!(STANDARD.encode(bytes));
    vec![
        encode(&png((65_536, 65_536), 256 << 20)),
        encode(&png((16_384, 16_384), 256 << 20)),
        encode(&png((28, 28), 0)),
        encode(&png((28, 28), 28 * 80)),
        encode(&png((0, 28), 28 * 85)),
        encode(b"\x89PNG\r\n\x1a\n"),
        encode(b"\xff\xd8\xff"),
        encode(b"GIF89a"),
        encode(b""),
        json!("%%%"),
        json!(3),
        json!("/etc/passwd"),
    ]
}

#[test]
fn broken_requests_do_not_stop_the_server() {
    let served = serve(&[&golden("sentences"), "--max-body", "1000", "--log", "quiet"]);
    let json = ("content-type", "application/json");
    served.ask("POST", "/v1/embeddings", &[json], &[b' '; 1001]).is_error(413);
    served.ask("POST", "/v1/embeddings", &[json, ("content-length", "99999999999")], b"{").is_error(413);
    let chunked = [b"800\r\n".to_vec(), vec![b' '; 0x800], b"\r\n0\r\n\r\n".to_vec()].concat();
    served.ask("POST", "/v1/embeddings", &[json, ("transfer-encoding", "chunked")], &chunked).is_error(413);
    served.get("/nothing").is_error(404);
    served.get("/v1/embeddings/").is_error(404);
    served.get("/../etc/passwd").is_error(404);
    served.ask("PUT", "/info", &[], b"").is_error(405);
    served.ask("GET", "/info", &[("host", "evil.example")], b"").is_error(403);
    served.ask("GET", "/info", &[("origin", "https://evil.example")], b"").is_error(403);
    served.ask("GET", "/info", &[("x-request-timeout", "soon")], b"").is_error(400);
    // A body that ends too early.
    let mut stream = served.connect().unwrap();
    stream.write_all(&request("POST", "/v1/embeddings", &[json, ("content-length", "100")], b"{\"inp")).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let _ = Answer::read(stream);
    for bytes in [&b"\x16\x03\x01\x02\x00"[..], b"GET\r\n\r\n", b"\r\n\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", &[0; 4096]]
    {
        let mut stream = served.connect().unwrap();
        stream.write_all(bytes).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let _ = Answer::read(stream);
    }
    // A body that is late.
    let mut stream = served.connect().unwrap();
    let late = [json, ("content-length", "100"), ("x-request-timeout", "0.2")];
    stream.write_all(&request("POST", "/v1/embeddings", &late, b"{")).unwrap();
    Answer::read(stream).unwrap().is_error(408);
    assert_eq!(served.get("/livez").status, 200);
}

#[test]
fn a_token_is_asked_for_and_never_shown() {
    let place = tempfile::tempdir().unwrap();
    let file = crate::binary::write(&place, "token", "hush-hush\n");
    let served = serve(&[&golden("sentences"), "--token-file", &file]);
    assert_eq!(served.get("/livez").status, 200);
    for wrong in ["Bearer hush", "Bearer hush-hush-hush", "hush-hush", "Bearer"] {
        let answer = served.ask("GET", "/v1/models", &[("authorization", wrong)], b"");
        assert_eq!(answer.header("www-authenticate"), Some("bearer"));
        answer.is_error(401);
    }
    served.get("/metrics").is_error(401);
    assert_eq!(served.ask("GET", "/v1/models", &[("authorization", "Bearer hush-hush")], b"").status, 200);
    assert!(!served.log().concat().contains("hush-hush"));
}
