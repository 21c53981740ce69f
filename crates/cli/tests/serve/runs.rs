//! Training runs in the inspector: the table, curves, maps and the request to stop.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::binary::{SMALL, done, path, regard, sets, wait_until, with_address};
use crate::client::{Answer, Served, request, serve};

/// Arguments of a small run that learns built-in sentences.
fn training<'a>(folder: &'a str, steps: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["train", "classify", "--out", folder, "--steps", steps];
    arguments.extend(sets(&SMALL));
    arguments.extend(more);
    arguments
}

/// Returns the weights of a run.
fn weights(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("model.safetensors")).unwrap()
}

fn run_of(served: &Served, name: &str) -> Value {
    let found = served.get("/v1/runs").json();
    found["runs"].as_array().unwrap().iter().find(|row| row["name"] == name).cloned().unwrap_or(Value::Null)
}

#[test]
fn a_watched_run_has_the_same_weights_and_leaves_its_maps() {
    let place = tempfile::tempdir().unwrap();
    let [plain, watched, resumed] = ["plain", "watched", "resumed"].map(|name| place.path().join(name));
    done(&regard(&training(path(&plain), "60", &[])));
    done(&regard(&training(path(&watched), "60", &["--watch"])));
    assert_eq!(weights(&plain), weights(&watched));
    // Stopped half-way, and resumed.
    done(&regard(&training(path(&resumed), "40", &["--watch"])));
    let more = ["train", "classify", "--out", path(&resumed), "--resume", "--steps", "60", "--watch"];
    done(&regard(&more));
    let straight = place.path().join("straight");
    done(&regard(&training(path(&straight), "40", &[])));
    done(&regard(&["train", "classify", "--out", path(&straight), "--resume", "--steps", "60"]));
    assert_eq!(weights(&straight), weights(&resumed));

    let served = serve(&["--runs", path(place.path())]);
    assert_eq!(served.get("/v1/runs").json()["runs"].as_array().unwrap().len(), 4);
    let row = run_of(&served, "watched");
    assert_eq!((&row["state"], &row["step"], &row["task"]), (&json!("finished"), &json!(60), &json!("classify")));
    assert_eq!(row["settings"]["model.d_model"], 16);
    assert!(row["scores"]["accuracy"].is_number() && row["watched"] == false, "{row}");
    let found = served.get("/v1/runs/watched").json();
    let curves = found["records"].as_array().unwrap();
    assert!(curves.iter().any(|line| line["split"] == "dev") && curves.len() > 3, "{found}");
    let later = served.get("/v1/runs/watched?since=40").json();
    assert!(later["records"].as_array().unwrap().iter().all(|line| line["step"].as_u64() > Some(40)));
    assert!(later["records"].as_array().unwrap().len() < curves.len());
    assert_eq!(served.get("/v1/runs/watched/maps").json()["steps"], json!([0, 20, 40, 60]));
    assert_eq!(served.get("/v1/runs/plain/maps").json()["steps"], json!([]));
    let [first, last] = [0, 60].map(|step| served.get(&format!("/v1/runs/watched/maps/{step}")).json());
    assert_eq!(first["tokens"], last["tokens"]);
    assert_ne!(first["maps"], last["maps"]);
    assert!(last["prediction"]["output"].is_string() && last["maps"][0]["name"] == "0.0", "{last}");
    let weights = last["maps"][0]["rows"][0].as_array().unwrap();
    assert!((weights.iter().map(|weight| weight.as_f64().unwrap()).sum::<f64>() - 1.0).abs() < 1e-3, "{last}");

    for missing in [
        "/v1/runs/none",
        "/v1/runs/watched/maps/7",
        "/v1/runs/watched/other",
        "/v1/runs/../plain",
        "/v1/runs/%2e%2e",
        "/v1/runs/..%2fplain",
        "/v1/runs/%2fetc%2fpasswd",
        "/v1/runs/watched%2fcheckpoints",
        "/v1/runs/%3Cscript%3E",
    ] {
        served.get(missing).is_error(404);
    }
    for wrong in ["/v1/runs/watched?since=x", "/v1/runs/watched?until=3", "/v1/runs/watched/maps/-1", "/v1/runs/%ff"] {
        served.get(wrong).is_error(422);
    }
    served.get("/v1/runs/watched/stop").is_error(405);
    served.post("/v1/runs/watched", &json!({})).is_error(405);
    served.post("/v1/runs/watched/stop", &json!({})).is_error(409);
    served.post("/v1/runs/watched/stop", &json!({ "now": true })).is_error(422);
    served.post("/v1/runs/none/stop", &json!({})).is_error(404);
    assert!(!watched.join("watch/stop").exists());
}

#[test]
fn a_run_can_be_watched_and_stopped_from_the_page() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("long run");
    let arguments = training(path(&folder), "1000000", &["--watch", "--set", "train.checkpoint_every=1000000"]);
    let (mut training, address) = with_address(&arguments);
    let (addr, query) = address.split_once("/?").unwrap();
    assert_eq!(query, "run=long%20run");
    let addr: SocketAddr = addr.parse().unwrap();
    assert!(addr.ip().is_loopback());
    let ask = |method: &str, path: &str, body: &[u8]| {
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        let headers = [("content-type", "application/json")];
        std::io::Write::write_all(&mut stream, &request(method, path, &headers, body)).unwrap();
        Answer::read(stream).unwrap()
    };
    assert_eq!(ask("GET", "/?run=long%20run", b"").status, 200);
    let row = || ask("GET", "/v1/runs", b"").json()["runs"][0].clone();
    wait_until("progress", || row()["step"].as_u64() > Some(20));
    let now = row();
    assert_eq!((&now["name"], &now["state"], &now["watched"]), (&json!("long run"), &json!("running"), &json!(true)));
    assert!(now["seconds_left"].as_f64() > Some(0.0) && now["rate"].as_f64() > Some(0.0), "{now}");
    assert_eq!(now["steps"], 1_000_000);
    // Another server, which only reads the folder, stops it.
    let served = serve(&["--runs", path(place.path())]);
    assert_eq!(run_of(&served, "long run")["state"], "running");
    // The runs of another server are not those of the process.
    ask("GET", "/v1/runs/other", b"").is_error(404);
    assert_eq!(served.post("/v1/runs/long%20run/stop", &json!({})).status, 200);
    assert!(training.0.wait().unwrap().success());
    assert_eq!(run_of(&served, "long run")["state"], "stopped");
    served.post("/v1/runs/long%20run/stop", &json!({})).is_error(409);
    assert!(!folder.join("watch/progress.json").exists() && !folder.join("watch/stop").exists());
    // It was saved as by Ctrl-C, so that it can be resumed.
    let made = run_of(&served, "long run")["step"].as_u64().unwrap();
    let more = (made + 1).to_string();
    done(&regard(&["train", "classify", "--out", path(&folder), "--resume", "--steps", &more]));
    assert_eq!(run_of(&served, "long run")["state"], "finished");
}
