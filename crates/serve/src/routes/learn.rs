//! `/v1/show` and `/v1/icl`: mechanisms and the theory of in-context learning, computed for the settings of a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Incoming;
use regard_inspect::show::ShowError;
use regard_inspect::show::catalogue::mechanisms;
use regard_nn::NnError;
use regard_theory::fields::Origin;
use regard_theory::prompt::{Correlation, Divisor, Task};
use regard_theory::show::solve::Solve;
use regard_theory::show::spectrum::ShowSpectrum;
use regard_theory::solver::{Method, Options};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout_at;

use super::Call;
use crate::body::{Response, json_response};
use crate::error::{ApiError, WorkError};

/// Largest number of multiplications for the couplings of a spin glass, about a second.
const MOST_WORK: u64 = 1_500_000_000;
/// Number of bins of the histogram of eigenvalues.
const BINS: usize = 40;
/// Number of new prompts for the test error.
const TESTS: u64 = 1_000;

/// A mechanism with its options; unknown ones are refused by the mechanism.
#[derive(Deserialize)]
struct Shown {
    mechanism: String,
    #[serde(default)]
    seed: u64,
    #[serde(flatten)]
    options: BTreeMap<String, Value>,
}

/// Lists the mechanisms with their options.
pub fn list() -> Response {
    json_response(StatusCode::OK, &json!({ "mechanisms": mechanisms() }))
}

/// Shows a mechanism.
pub async fn show(call: Call, body: Incoming) -> Result<Response, ApiError> {
    let Shown { mechanism, seed, options } = call.read(body).await?;
    let Some(found) = mechanisms().into_iter().find(|known| known.name == mechanism) else {
        let names: Vec<&str> = mechanisms().iter().map(|known| known.name).collect();
        let said =
            format!("no mechanism is called {}; there are {}", regard_data::excerpt(&mechanism), names.join(", "));
        return Err(ApiError::invalid("mechanism", said));
    };
    let document = computed(&call, move || {
        let shown = found.show(&options, seed).map_err(refused)?;
        Ok(json!({
            "mechanism": found.name, "formula": found.formula, "source": found.source, "text": shown.text,
            "json": shown.json, "svg": shown.figure.to_svg(),
        }))
    });
    Ok(json_response(StatusCode::OK, &document.await?))
}

fn refused(error: ShowError) -> ApiError {
    match error {
        ShowError::Config(error) | ShowError::Layer(NnError::Config(error)) => {
            ApiError::invalid(error.field.clone(), error.to_string())
        }
        other => ApiError::invalid("mechanism", other.to_string()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Glass {
    d: usize,
    n: usize,
    p: u64,
    lambda: f64,
    #[serde(default = "one")]
    seed: u64,
}

fn one() -> u64 {
    1
}

impl Glass {
    fn check(&self) -> Result<(), ApiError> {
        let Self { d, n, p, lambda, .. } = *self;
        let whole = |name: &'static str, value: u64, most: u64| match (1..=most).contains(&value) {
            true => Ok(()),
            false => Err(ApiError::invalid(name, format!("expected a whole number from 1 to {most}, got {value}"))),
        };
        whole("d", d as u64, 20)?;
        whole("n", n as u64, 2_000)?;
        whole("p", p, 50_000)?;
        if !(1e-6..=100.0).contains(&lambda) {
            return Err(ApiError::invalid("lambda", format!("expected a number from 0.000001 to 100, got {lambda}")));
        }
        let spins = (d as u64 + 1).pow(2);
        let work = p * (spins * spins + (n * d) as u64);
        if work > MOST_WORK {
            let most = MOST_WORK / (spins * spins + (n * d) as u64);
            return Err(ApiError::too_large(
                "p",
                format!("expected at most {most} prompts with these d and n, got {p}"),
            ));
        }
        Ok(())
    }
}

/// Finds the ground state of a spin glass, and the eigenvalues of its couplings.
pub async fn icl(call: Call, body: Incoming) -> Result<Response, ApiError> {
    let glass: Glass = call.read(body).await?;
    glass.check()?;
    let document = computed(&call, move || {
        let Glass { d, n, p, lambda, seed } = glass;
        let task = Task { d, n, c: 0.0, correlation: Correlation::Equal, noise: 0.0, divisor: Divisor::Columns };
        let solve = Solve {
            task,
            p,
            origin: Origin::Prompts,
            lambda,
            method: Method::Exact,
            options: Options::default(),
            tests: TESTS,
            training: None,
            seed,
        };
        let wrong = |error: regard_theory::TheoryError| ApiError::invalid("lambda", error.to_string());
        let solved = solve.show(&mut |_| {}).map_err(wrong)?;
        let spectrum = ShowSpectrum { task, p: vec![p], bins: BINS, seed }.show(&mut |_| {}).map_err(wrong)?;
        Ok(json!({
            "test_error": solved.json["test_error"], "train_error": solved.json["train_error"],
            "json": solved.json, "text": solved.text, "svg": solved.figure.to_svg(),
            "spectrum": spectrum.json, "spectrum_text": spectrum.text, "spectrum_svg": spectrum.figure.to_svg(),
        }))
    });
    Ok(json_response(StatusCode::OK, &document.await?))
}

/// Computes a document on a thread of its own. Few run at once, so that routes of models are not held up.
async fn computed(
    call: &Call,
    work: impl FnOnce() -> Result<Value, ApiError> + Send + 'static,
) -> Result<Value, ApiError> {
    let permit = timeout_at(call.deadline, Arc::clone(&call.app.learning).acquire_owned()).await;
    let permit = permit.map_err(|_| ApiError::late())?.map_err(|_| WorkError::Retired)?;
    call.blocking(move || {
        // Held until the computation ends, even if nobody waits any more.
        let _permit = permit;
        work()
    })
    .await
}
