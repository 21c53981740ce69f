//! Checks that a model fits in memory, before any of it is built.

use regard_inspect::count::{Count, CountError, Description, count};
use regard_system::available_memory;

use crate::error::TaskError;

/// Copies of all parameters beside those that a step needs: the best weights so far, and one for reading or writing a checkpoint
/// or a model.
const BESIDE: u128 = 2;

/// End of the error message for training: what is needed beside the parameters, and what to do.
const TRAINING: &str = " with their gradients, averages and a batch: lower model.d_model, model.n_layers, the vocabulary or \
                        train.batch_tokens";

/// Returns an error if model, optimiser and activations need more memory than is available; accepts what cannot be counted.
pub(crate) fn check(description: &Description) -> Result<(), TaskError> {
    let Some((counted, available)) = counted(description)? else { return Ok(()) };
    // Each thread that shares a batch has its own gradients.
    let copies = crate::train::parts() as u128 - 1 + BESIDE;
    let needed = counted.memory.training + 4 * counted.parameters() * copies;
    fits(needed, counted.parameters(), available, TRAINING)
}

/// Returns the cost of a model and the available bytes; `None` if one of them is unknown. Too large a model is an error.
fn counted(description: &Description) -> Result<Option<(Count, u128)>, TaskError> {
    match count(description) {
        Ok(counted) => Ok(available_memory().map(|available| (counted, available))),
        Err(CountError::TooLarge) => {
            Err(TaskError::input("model", "sizes that fit in some memory", "sizes too large to be counted"))
        }
        Err(_) => Ok(None),
    }
}

/// Returns an error if the weights of a model alone need more memory than is available.
pub(crate) fn check_weights(description: &Description) -> Result<(), TaskError> {
    let Some((counted, available)) = counted(description)? else { return Ok(()) };
    // Four bytes per parameter, once as read from the file and once in the model.
    fits(8 * counted.parameters(), counted.parameters(), available, "")
}

/// Returns an error if `needed` exceeds `available` bytes; `more` ends the message.
fn fits(needed: u128, parameters: u128, available: u128, more: &str) -> Result<(), TaskError> {
    if needed <= available {
        return Ok(());
    }
    let expected = format!("at most {}, the available memory", gigabytes(available));
    let got = format!("about {} for {parameters} parameters{more}", gigabytes(needed));
    Err(TaskError::input("memory", expected, got))
}

fn gigabytes(bytes: u128) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1u32 << 30))
}

#[cfg(test)]
mod tests {
    use burn::module::Module;
    use burn::tensor::Device;
    use regard_nn::Init;

    use super::*;
    use crate::caption::Captions;
    use crate::classify::Classify;
    use crate::compose::Compose;
    use crate::generate::Generate;
    use crate::graph::Nodes;
    use crate::pretrain::Pretrain;
    use crate::speech::Speech;
    use crate::tag::Tag;
    use crate::task::Task;
    use crate::task::testing::configured;
    use crate::translate::Translate;
    use crate::words::Words;
    use crate::write::WriteTask;

    fn started<T: Task>(sets: &[&str]) -> T {
        T::start(configured::<T>(sets).unwrap()).unwrap().0
    }

    /// Returns the relative error of the counted number of parameters.
    fn error<T: Task>(sets: &[&str]) -> f64 {
        let task: T = started(sets);
        let counted = count(&task.described().unwrap()).unwrap().parameters() as f64;
        let has = task.model(&Init::new(1, &Device::flex())).unwrap().num_params() as f64;
        (counted - has).abs() / has
    }

    #[test]
    fn tasks_count_their_parameters() {
        for exact in [
            error::<Pretrain>(&[]),
            error::<Pretrain>(&["model.norm=rms"]),
            error::<Generate>(&[]),
            error::<Generate>(&["model.kind=gru", "model.output_weights=own"]),
            error::<Generate>(&["model.kind=lstm"]),
            error::<Generate>(&["model.attention=linear"]),
            error::<Compose>(&[]),
            error::<Compose>(&["model.kind=lstm"]),
            error::<Classify>(&[]),
            error::<Classify>(&["model.kind=gru", "model.pooling=mean"]),
            error::<Nodes>(&[]),
            error::<Nodes>(&["model.scoring=dynamic", "model.output_heads=3"]),
            error::<Nodes>(&["model.kind=gcn"]),
            error::<WriteTask>(&["model.n_layers=3"]),
            error::<WriteTask>(&["model.kind=prediction"]),
        ] {
            assert_eq!(exact, 0.0);
        }
        for near in [
            error::<Classify>(&["model.kind=bag"]),
            error::<Words>(&[]),
            error::<Tag>(&[]),
            error::<Tag>(&["model.kind=lstm"]),
            error::<Translate>(&[]),
            error::<Captions>(&[]),
            error::<Captions>(&["model.kind=transformer"]),
            error::<Speech>(&[]),
            error::<Speech>(&["data.target=text"]),
        ] {
            assert!(near < 0.1, "{near}");
        }
    }

    #[test]
    fn a_model_that_does_not_fit_is_refused_in_every_task() {
        fn refused<T: Task>(sizes: &[&str]) {
            let task: T = started(sizes);
            let told = check(&task.described().unwrap()).err().map(|error| error.to_string());
            assert!(available_memory().is_none() || told.is_some_and(|told| told.contains("GiB")), "{}", T::NAME);
        }
        refused::<Translate>(&["model.d_model=400000"]);
        refused::<Tag>(&["model.d_model=400000"]);
        refused::<Classify>(&["model.d_model=400000"]);
        refused::<Generate>(&["model.d_model=400000"]);
        refused::<Pretrain>(&["model.d_model=400000"]);
        refused::<Words>(&["model.d_model=4000000"]);
        refused::<Compose>(&["model.d_model=400000"]);
        refused::<Captions>(&["model.d_model=400000"]);
        refused::<Nodes>(&["model.d_model=400000", "model.n_layers=3"]);
        refused::<WriteTask>(&["model.d_model=400000"]);
        refused::<Speech>(&["model.d_model=400000"]);
    }

    #[test]
    fn an_error_names_needed_and_available_memory() {
        assert!(fits(1 << 30, 10, 1 << 30, TRAINING).is_ok());
        let error = fits(3 << 30, 10, 1 << 30, TRAINING).unwrap_err().to_string();
        assert!(error.contains("1.0 GiB") && error.contains("3.0 GiB") && error.contains("d_model"), "{error}");
    }
}
