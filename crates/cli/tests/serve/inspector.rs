//! What the inspector asks for: its files, examples, summaries of attention, changed models, costs of heads, the logit lens, and
//! mechanisms.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::binary::{documents, done, path, regard, sets};
use crate::client::{Llama, golden, request, serve};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_page_needs_no_token_and_loads_nothing_from_elsewhere() {
    let served = serve(&[&golden("bert-tagger"), "--token", "secret"]);
    let page = served.get("/");
    assert_eq!(page.status, 200, "{}", page.text());
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    let policy = page.header("content-security-policy").unwrap();
    for part in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'"]
    {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    // Every file that the page names is there, under the same policy.
    let text = page.text();
    let names: Vec<&str> = text.split('"').filter(|part| part.starts_with("/page/")).collect();
    // The part that draws maps is that of the page of `regard look`.
    let names = [names, vec!["/page/weights.js", "/page/attention.css"]].concat();
    assert!(
        names.iter().any(|name| name.ends_with(".js")) && names.iter().any(|name| name.ends_with(".css")),
        "{text}"
    );
    for name in names {
        let file = served.get(name);
        assert_eq!((file.status, file.header("content-security-policy")), (200, Some(policy)), "{name}");
        let kinds = [("js", "text/javascript"), ("css", "text/css"), ("svg", "image/svg+xml")];
        let kind = kinds.iter().find(|(end, _)| name.ends_with(end)).unwrap().1;
        assert!(file.header("content-type").unwrap().starts_with(kind), "{name}");
    }
    for missing in ["/page/", "/page/none.js", "/page/../Cargo.toml", "/page/%2e%2e/lib.rs", "/page//etc/passwd"] {
        served.get(missing).is_error(404);
    }
    served.ask("POST", "/", &[], b"").is_error(405);
    served.ask("DELETE", "/page/style.css", &[], b"").is_error(405);
    served.get("/v1/example").is_error(401);
    served.get("/info").is_error(401);
    let mut stream = served.connect().unwrap();
    stream.write_all(&request("HEAD", "/", &[], b"")).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\n"), "{text}");
    assert!(served.log().iter().any(|line| line.contains("inspector http://127.0.0.1:")), "{:?}", served.log());
}

#[test]
fn models_say_what_they_can_do() {
    let llama = Llama::new();
    let served = serve(&[&golden("bert-tagger"), &llama.named("llama"), &golden("sentences")]);
    let info = served.get("/info").json();
    let [tagger, llama, sentences] = [0, 1, 2].map(|at| info["models"][at].clone());
    assert_eq!(tagger["layers"][0]["name"], "0");
    assert_eq!(tagger["layers"][0]["modes"], json!(["zero", "mean", "uniform", "self"]));
    assert_eq!(tagger["layers"][0]["kind"], "self");
    assert!(tagger["layers"][0]["words"].is_string() && tagger["layers"][0]["heads"].as_u64() > Some(1), "{tagger}");
    assert!(!tagger["labels"].as_array().unwrap().is_empty(), "{tagger}");
    assert_eq!((&tagger["can"]["predict"], &tagger["can"]["lens"]), (&json!(true), &json!(false)));
    assert_eq!((&llama["can"]["lens"], &llama["can"]["generate"]), (&json!(true), &json!(true)));
    assert_eq!((&sentences["can"]["predict"], &sentences["can"]["attention"]), (&json!(false), &json!(true)));
    assert_eq!(info["runs"], false);
}

#[test]
fn an_example_is_an_input_that_the_model_takes() {
    let names = ["bert-tagger", "vit", "gpt2"];
    let folders = names.map(golden);
    let served = serve(&folders.each_ref().map(String::as_str));
    for name in names {
        let example = served.get(&format!("/v1/example?model={name}")).json();
        assert_eq!(example["model"], name, "{example}");
        let seen = served.post("/v1/attention", &json!({ "model": name, "input": example["input"] }));
        assert_eq!(seen.status, 200, "{name}: {}", seen.text());
    }
    served.get("/v1/example").is_error(422);
    served.get("/v1/example?model=none").is_error(404);
    served.get("/v1/example?model=vit&other=1").is_error(422);
    served.get("/v1/example?model=%ff").is_error(422);
    served.post("/v1/example", &json!({})).is_error(405);
}

#[test]
fn summaries_are_those_of_the_maps() {
    let folder = golden("bert-tagger");
    let served = serve(&[&folder]);
    let input = "the cat sat";
    let all = served.done("/v1/attention", &json!({ "input": input }));
    let found = served.done("/v1/attention", &json!({ "input": input, "summary": true }));
    assert_eq!((found["maps"].as_array().unwrap().len(), &found["tokens"]), (0, &all["tokens"]));
    let maps = all["maps"].as_array().unwrap();
    assert_eq!(found["heads"].as_array().unwrap().len(), maps.len());
    for (head, map) in found["heads"].as_array().unwrap().iter().zip(maps) {
        assert_eq!(head["name"], map["name"]);
        // So short an input is its own thumbnail, but for rounding.
        for (cells, row) in head["thumbnail"].as_array().unwrap().iter().zip(map["rows"].as_array().unwrap()) {
            for (cell, weight) in cells.as_array().unwrap().iter().zip(row.as_array().unwrap()) {
                assert!((number(cell) - number(weight)).abs() <= 5.1e-5, "{head}");
            }
        }
        assert!((0.0..=1.0 + 1e-6).contains(&number(&head["mass"])) && number(&head["entropy"]) > 0.0, "{head}");
        assert!(head["pattern"].is_string() && head["distance"].is_number(), "{head}");
    }
    let one = served.done("/v1/attention", &json!({ "input": input, "summary": true, "layers": ["0.1"] }));
    assert_eq!(one["heads"], json!([found["heads"].as_array().unwrap().iter().find(|h| h["name"] == "0.1").unwrap()]));
    // A long input: thumbnails stay small.
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama")]);
    let long = "w1 w2 w3 w4 ".repeat(10);
    let found = served.done("/v1/attention", &json!({ "input": long, "summary": true }));
    assert!(found["tokens"].as_array().unwrap().len() > 32, "{}", found["tokens"]);
    for head in found["heads"].as_array().unwrap() {
        let thumbnail = head["thumbnail"].as_array().unwrap();
        assert_eq!((thumbnail.len(), thumbnail[0].as_array().unwrap().len()), (32, 32));
    }
}

#[test]
fn maps_can_be_cut_rolled_out_and_taken_as_files() {
    let folder = golden("bert-tagger");
    let served = serve(&[&folder]);
    let ask = |more: Value| {
        let mut document = json!({ "input": "the cat <script>alert(1)</script> sat" });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        document
    };
    let all = served.done("/v1/attention", &ask(json!({})));
    let cut = served.done("/v1/attention", &ask(json!({ "rows": [1, 3], "columns": [2, 4] })));
    for (map, whole) in cut["maps"].as_array().unwrap().iter().zip(all["maps"].as_array().unwrap()) {
        assert_eq!((&map["first_row"], &map["first_column"]), (&json!(1), &json!(2)));
        for row in 0..2 {
            let wanted = &whole["rows"][row + 1].as_array().unwrap()[2..4];
            assert_eq!(map["rows"][row].as_array().unwrap(), wanted);
        }
    }
    // Â₂ Â₁ with Â = ½ mean of the heads + ½ I, by hand.
    let rolled = served.done("/v1/attention", &ask(json!({ "rollout": true })));
    let n = all["tokens"].as_array().unwrap().len();
    let layer = |layer: usize| {
        let prefix = format!("{layer}.");
        let heads: Vec<&Value> = all["maps"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|m| m["name"].as_str().unwrap().starts_with(&prefix))
            .collect();
        let cell = |i: usize, j: usize| {
            let mean = heads.iter().map(|head| number(&head["rows"][i][j])).sum::<f64>() / heads.len() as f64;
            0.5 * mean + if i == j { 0.5 } else { 0.0 }
        };
        (0..n).map(|i| (0..n).map(|j| cell(i, j)).collect()).collect::<Vec<Vec<f64>>>()
    };
    let layers = served.get("/info").json()["models"][0]["layers"].as_array().unwrap().len();
    let times = |a: &[Vec<f64>], b: &[Vec<f64>]| -> Vec<Vec<f64>> {
        (0..n).map(|i| (0..n).map(|j| (0..n).map(|k| a[i][k] * b[k][j]).sum()).collect()).collect()
    };
    let wanted = (1..layers).fold(layer(0), |below, at| times(&layer(at), &below));
    let rollout = rolled["maps"].as_array().unwrap().iter().find(|map| map["name"] == "rollout").unwrap();
    for i in 0..n {
        for j in 0..n {
            assert!((number(&rollout["rows"][i][j]) - wanted[i][j]).abs() < 1e-5, "{i} {j}");
        }
    }
    // The files are those of `regard look --out`.
    let place = tempfile::tempdir().unwrap();
    for (format, kind) in
        [("html", "text/html"), ("svg", "image/svg+xml"), ("png", "image/png"), ("json", "application/json")]
    {
        let file = served.post("/v1/attention", &ask(json!({ "format": format })));
        assert_eq!(file.status, 200, "{}", file.text());
        assert!(file.header("content-type").unwrap().starts_with(kind));
        assert!(file.header("content-disposition").unwrap().starts_with("attachment"));
        let out = place.path().join(format!("look.{format}"));
        let input = ask(json!({}))["input"].as_str().unwrap().to_string();
        done(&regard(&["look", &folder, &input, "--out", path(&out)]));
        assert_eq!(file.body, std::fs::read(&out).unwrap(), "{format}");
        if matches!(format, "html" | "svg") {
            assert!(!file.text().contains("<script>alert"), "{format}");
        }
    }
    for wrong in [
        json!({ "columns": [3, 3] }),
        json!({ "rows": [-1, 3] }),
        json!({ "format": "exe" }),
        json!({ "format": "svg", "summary": true }),
        json!({ "summary": "yes" }),
        json!({ "temperature": 0 }),
        json!({ "temperature": -1 }),
        json!({ "temperature": 1e9 }),
        json!({ "temperature": "warm" }),
        json!({ "picture": 1 }),
    ] {
        served.post("/v1/attention", &ask(wrong)).is_error(422);
    }
    let headers = [("content-type", "application/json")];
    let ask = |document: &str| served.ask("POST", "/v1/attention", &headers, document.as_bytes());
    ask("{\"input\": \"a\", \"temperature\": NaN}").is_error(400);
    ask("{\"input\": \"a\", \"temperature\": 1e999}").is_error(422);
}

#[test]
fn a_temperature_changes_answers_and_maps() {
    let served = serve(&[&golden("bert-tagger")]);
    let plain = served.done("/v1/attention", &json!({ "input": "the cat sat" }));
    let flat = served.done("/v1/attention", &json!({ "input": "the cat sat", "temperature": 100 }));
    let n = plain["tokens"].as_array().unwrap().len() as f64;
    for map in flat["maps"].as_array().unwrap() {
        for weight in map["rows"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap()) {
            assert!((number(weight) - 1.0 / n).abs() < 0.05, "{map}");
        }
    }
    let one = served.done("/v1/attention", &json!({ "input": "the cat sat", "temperature": 1 }));
    assert_eq!(one["prediction"]["tags"], plain["prediction"]["tags"]);
    let found = served.done("/v1/predict", &json!({ "inputs": ["the cat sat"], "temperature": 100 }));
    let result = &found["results"][0];
    assert_eq!(result["without"]["probabilities"], flat["prediction"]["probabilities"]);
    assert_ne!(result["without"]["probabilities"], result["probabilities"]);
}

#[test]
fn the_cost_of_each_head_is_that_of_a_call_without_it() {
    let served = serve(&[&golden("bert-tagger"), &golden("sentences")]);
    let ask = json!({ "model": "bert-tagger", "input": "the cat sat", "mode": "uniform" });
    let found = served.done("/v1/cost", &ask);
    let heads = found["heads"].as_array().unwrap();
    assert!(heads.len() > 1 && found["mode"] == "uniform", "{found}");
    assert!(heads.windows(2).all(|two| number(&two[0]["change"]).abs() >= number(&two[1]["change"]).abs()));
    for head in heads {
        let without = format!("{}=uniform", head["name"].as_str().unwrap());
        let plain = json!({ "model": "bert-tagger", "inputs": ["the cat sat"], "without": without });
        let result = &served.done("/v1/predict", &plain)["results"][0];
        let sure = result["without"]["probabilities"].as_array().unwrap().iter();
        let tags = result["without"]["tags"].as_array().unwrap().iter().zip(result["tags"].as_array().unwrap());
        let kept: f64 = sure.zip(tags).filter(|(_, (tag, own))| tag == own).map(|(sure, _)| number(sure)).sum();
        let wanted = kept / result["tags"].as_array().unwrap().len() as f64;
        assert!((number(&head["value"]) - wanted).abs() < 1e-6, "{head}: {wanted}");
        assert!((number(&head["change"]) - (wanted - number(&found["score"]["value"]))).abs() < 1e-6, "{head}");
    }
    served.post("/v1/cost", &json!({ "model": "sentences", "input": "a" })).is_error(400);
    served.post("/v1/cost", &json!({ "model": "bert-tagger", "input": "a", "mode": "self" })).is_error(422);
    served.post("/v1/cost", &json!({ "model": "bert-tagger", "input": 3 })).is_error(422);
    served.post("/v1/cost", &json!({ "model": "bert-tagger", "input": "a", "more": 1 })).is_error(422);
    // The dev split of a checkpoint is not known, so that means cannot be computed.
    let means = served.post("/v1/cost", &json!({ "model": "bert-tagger", "input": "a", "mode": "mean" }));
    assert!((400..500).contains(&means.status), "{}", means.text());
}

#[test]
fn a_language_model_lists_its_next_tokens() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama")]);
    let found = served.done("/v1/predict", &json!({ "inputs": ["w1 w2 w3"], "without": "0" }));
    let result = &found["results"][0];
    let lens = served.done("/v1/lens", &json!({ "input": "w1 w2 w3", "top": 10 }));
    let last = lens["layers"].as_array().unwrap().last().unwrap()["positions"].as_array().unwrap().last().unwrap();
    for (guess, wanted) in result["next"].as_array().unwrap().iter().zip(last.as_array().unwrap()) {
        assert_eq!(guess["token"], wanted["token"]);
        assert!((number(&guess["probability"]) - number(&wanted["probability"])).abs() < 1e-5, "{guess} {wanted}");
    }
    assert_eq!(result["next"].as_array().unwrap().len(), 10);
    assert_ne!(result["next"], result["without"]["next"]);
    let seen = served.done("/v1/attention", &json!({ "input": "w1 w2 w3", "without": "0" }));
    assert_eq!(seen["prediction"]["next"], result["without"]["next"]);
}

#[test]
fn the_last_layer_of_the_lens_is_the_model_itself() {
    let llama = Llama::new();
    let served = serve(&[&llama.named("llama"), &golden("vit")]);
    let ask = json!({ "model": "llama", "input": "w1 w2 w3", "top": 4 });
    let found = served.done("/v1/lens", &ask);
    let layers = found["layers"].as_array().unwrap();
    assert_eq!((&layers[0]["name"], &layers[1]["name"]), (&json!("embedding"), &json!("0")));
    let positions = layers.last().unwrap()["positions"].as_array().unwrap();
    assert_eq!(positions.len(), found["tokens"].as_array().unwrap().len());
    let next = json!({ "model": "llama", "prompt": "w1 w2 w3", "max_tokens": 1, "temperature": 0, "logprobs": 1 });
    let written = served.done("/v1/completions", &next);
    let log = number(&written["choices"][0]["logprobs"]["token_logprobs"][0]);
    let best = &positions.last().unwrap()[0];
    assert!((number(&best["probability"]) - log.exp()).abs() < 1e-4, "{best} {written}");
    for layer in layers {
        for guesses in layer["positions"].as_array().unwrap() {
            let all: Vec<f64> = guesses.as_array().unwrap().iter().map(|guess| number(&guess["probability"])).collect();
            assert!(
                all.len() == 4 && all.windows(2).all(|two| two[0] >= two[1]) && all.iter().sum::<f64>() <= 1.0 + 1e-9
            );
        }
    }
    let changed = served.done("/v1/lens", &json!({ "model": "llama", "input": "w1 w2 w3", "top": 4, "without": "0" }));
    assert_eq!(changed["layers"][0], layers[0]);
    assert_ne!(changed["layers"][1], layers[1]);
    served.post("/v1/lens", &json!({ "model": "llama", "input": "w1", "top": 0 })).is_error(422);
    served.post("/v1/lens", &json!({ "model": "llama", "input": "w1", "top": 51 })).is_error(422);
    served.post("/v1/lens", &json!({ "model": "llama", "input": "w1 ".repeat(600) })).is_error(422);
    served.post("/v1/lens", &json!({ "model": "llama", "input": "" })).is_error(422);
    let vit = served.post("/v1/lens", &json!({ "model": "vit", "input": { "image": "AAAA" } }));
    assert!((400..500).contains(&vit.status), "{}", vit.text());
}

#[test]
fn mechanisms_are_computed_for_the_settings_of_a_request() {
    let place = tempfile::tempdir().unwrap();
    let served = serve(&["--runs", path(place.path())]);
    let all = served.get("/v1/show").json();
    let names: Vec<&str> =
        all["mechanisms"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for name in ["attention", "softmax", "masks", "position", "heads", "linear", "window", "hard"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for name in names {
        let shown = served.done("/v1/show", &json!({ "mechanism": name }));
        assert!(shown["svg"].as_str().unwrap().starts_with("<svg") && !shown["text"].as_str().unwrap().is_empty());
    }
    // The same numbers as the command gives.
    let ask = json!({ "mechanism": "attention", "words": ["a", "b", "a"], "mask": "causal", "seed": 3 });
    let shown = served.done("/v1/show", &ask);
    let command = regard(&["show", "attention", "a", "b", "a", "--mask", "causal", "--seed", "3", "--json"]);
    assert_eq!(shown["json"], documents(&done(&command))[0]);
    let warm = regard(&["show", "softmax", "--scores", "3,1", "--temperature", "2", "--json"]);
    let shown = served.done("/v1/show", &json!({ "mechanism": "softmax", "scores": [3, 1], "temperature": 2 }));
    assert_eq!(shown["json"], documents(&done(&warm))[0]);
    let script = json!({ "mechanism": "attention", "words": "<script>alert(1)</script> b" });
    let answer = served.post("/v1/show", &script);
    assert!(answer.status == 422 || !answer.json()["svg"].as_str().unwrap().contains("<script>"), "{}", answer.text());
    for wrong in [
        json!({}),
        json!({ "mechanism": "none" }),
        json!({ "mechanism": "../attention" }),
        json!({ "mechanism": "softmax", "temperature": 0 }),
        json!({ "mechanism": "softmax", "scores": vec![0; 1_000] }),
        json!({ "mechanism": "softmax", "options": {} }),
        json!({ "mechanism": "softmax", "seed": -1 }),
        json!({ "mechanism": "attention", "words": "x ".repeat(5_000) }),
        json!({ "mechanism": "position", "length": 1_000_000_000_000u64 }),
    ] {
        served.post("/v1/show", &wrong).is_error(422);
    }
    // A server of runs has no model.
    served.post("/v1/predict", &json!({ "inputs": ["a"] })).is_error(404);
    assert_eq!(served.get("/info").json()["models"], json!([]));
}

#[test]
fn a_spin_glass_is_solved_at_once() {
    let place = tempfile::tempdir().unwrap();
    let served = serve(&["--runs", path(place.path())]);
    let found = served.done("/v1/icl", &json!({ "d": 4, "n": 30, "p": 500, "lambda": 0.01, "seed": 2 }));
    let solve = ["icl", "solve", "--d", "4", "--n", "30", "--p", "500", "--lambda", "0.01", "--seed", "2", "--json"];
    let command = documents(&done(&regard(&[&solve[..], &["--solver", "exact", "--tests", "1000"]].concat())));
    assert_eq!(found["json"]["ground_state"], command[0]["ground_state"]);
    assert_eq!(found["test_error"], command[0]["test_error"]);
    assert!(!found["spectrum"]["hessian"][0]["eigenvalues"].as_array().unwrap().is_empty());
    assert!(found["svg"].as_str().unwrap().starts_with("<svg") && found["spectrum_svg"].is_string());
    for (wrong, status) in [
        (json!({ "d": 0, "n": 30, "p": 500, "lambda": 0.01 }), 422),
        (json!({ "d": 1_000_000, "n": 30, "p": 500, "lambda": 0.01 }), 422),
        (json!({ "d": 20, "n": 2_000, "p": 50_000, "lambda": 0.01 }), 413),
        (json!({ "d": 4, "n": 30, "p": 500, "lambda": 0 }), 422),
        (json!({ "d": 4, "n": 30, "p": 500, "lambda": -1 }), 422),
        (json!({ "d": 4, "n": 30, "p": 1.5, "lambda": 0.1 }), 422),
        (json!({ "d": 4, "n": 30, "p": 500 }), 422),
    ] {
        served.post("/v1/icl", &wrong).is_error(status);
    }
}

#[test]
fn pictures_graphs_and_strokes_come_with_their_drawings() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("pen");
    let small = sets(&["model.d_model=16", "train.batch_examples=8", "train.evaluate_examples=4", "train.warmup=0"]);
    done(&regard(&[&["train", "write", "--steps", "2", "--out", path(&folder)][..], &small].concat()));
    let served = serve(&[path(&folder)]);
    let example = served.get("/v1/example").json();
    let seen = served.done("/v1/attention", &json!({ "input": example["input"], "picture": true }));
    assert!(seen["picture"].as_str().unwrap().starts_with("<svg"), "{seen}");
    assert!(seen["prediction"]["strokes"].is_array(), "{seen}");
    let plain = served.done("/v1/attention", &json!({ "input": example["input"] }));
    assert!(plain.get("picture").is_none());
}
