//! One module a task: data, model, loss, metric, prediction; and the trainer that all of them share.
#![forbid(unsafe_code)]

mod classify;
pub mod compare;
mod compose;
pub mod decode;
mod error;
pub mod folder;
mod generate;
pub mod heads;
pub mod input;
mod memory;
pub mod metrics;
mod model;
mod plain_text;
mod pretrain;
mod pretrained;
mod report;
mod rows;
pub mod run;
pub mod settings;
mod tag;
pub mod task;
pub mod train;
mod translate;
pub mod weights;
mod words;

use std::marker::PhantomData;

pub use error::TaskError;
pub use run::{Finished, Kind, Opened, Request, open};

/// The tasks, in the order people are told of them.
// Inlined into the binary, its table would have the compiler make all the code of every task there once more.
#[inline(never)]
pub fn kinds() -> &'static [&'static dyn Kind] {
    &[
        &run::Of::<translate::Translate>(PhantomData),
        &run::Of::<tag::Tag>(PhantomData),
        &run::Of::<classify::Classify>(PhantomData),
        &run::Of::<generate::Generate>(PhantomData),
        &run::Of::<pretrain::Pretrain>(PhantomData),
        &run::Of::<words::Words>(PhantomData),
        &run::Of::<compose::Compose>(PhantomData),
    ]
}

/// The task of that name.
pub fn kind(name: &str) -> Option<&'static dyn Kind> {
    kinds().iter().copied().find(|kind| kind.name() == name)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::task::Task;

    /// The keys of a section that a task's commented file does not name, but for those it has no use for.
    fn unnamed<T: Task>(unused: &[&str]) -> Vec<String> {
        let config: T::Config = crate::settings::resolve(T::CONFIG, None, &[], &[]).unwrap();
        let Value::Object(sections) = serde_json::to_value(config).unwrap() else { panic!("sections") };
        let keys = sections.into_iter().flat_map(|(section, keys)| match keys {
            Value::Object(keys) => keys.into_iter().map(|(key, _)| key).collect(),
            _ => vec![section],
        });
        let named = |key: &String| {
            let begins = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{key} ="));
            T::CONFIG.lines().any(begins) || T::CONFIG.contains(&format!("[data.{key}]"))
        };
        keys.filter(|key| !named(key) && !unused.contains(&key.as_str())).collect()
    }

    #[test]
    fn each_file_names_every_key_that_its_task_uses() {
        let decoder = ["n_decoder_layers", "memory", "score", "attend", "selection"];
        let output = ["output_weights", "output_bias"];
        let of = |lists: &[&[&'static str]]| lists.concat();
        let none: Vec<String> = Vec::new();
        let translate = of(&[&["from", "freeze", "word_dropout", "first_weights"]]);
        assert_eq!(unnamed::<crate::translate::Translate>(&translate), none, "translate");
        let tag = of(&[&decoder, &output, &["first_weights", "embedding_scale"]]);
        assert_eq!(unnamed::<crate::tag::Tag>(&tag), none, "tag");
        let classify = of(&[&decoder, &output, &["first_weights"]]);
        assert_eq!(unnamed::<crate::classify::Classify>(&classify), none, "classify");
        let generate = of(&[&decoder, &["from", "freeze", "word_dropout"]]);
        assert_eq!(unnamed::<crate::generate::Generate>(&generate), none, "generate");
        let pretrain = of(&[&decoder, &output, &["from", "freeze", "word_dropout", "d_hidden"]]);
        assert_eq!(unnamed::<crate::pretrain::Pretrain>(&pretrain), none, "pretrain");
        assert_eq!(unnamed::<crate::words::Words>(&["label_smoothing"]), none, "words");
        let compose = of(&[&decoder, &output, &["from", "freeze", "word_dropout", "first_weights"]]);
        assert_eq!(unnamed::<crate::compose::Compose>(&compose), none, "compose");
    }
}
