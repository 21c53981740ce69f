//! One module per task, with its data, model, loss, metrics and predictions, and the trainer that all tasks share.
#![forbid(unsafe_code)]

pub mod answered;
mod answers;
pub mod auto;
mod caption;
mod classify;
pub mod compare;
mod compose;
mod data_share;
pub mod decode;
mod error;
pub mod extended;
mod finished;
pub mod folder;
mod generate;
mod graph;
pub mod heads;
pub mod hugging_face;
mod image;
pub mod ink;
pub mod input;
pub mod lens;
mod looked;
mod memory;
pub mod metrics;
pub mod model;
mod notes;
pub mod opened;
mod pictures;
mod plain_text;
mod pretrain;
mod pretrained;
mod report;
mod rewards;
pub mod rows;
pub mod run;
pub mod run_config;
mod seal;
pub mod settings;
pub mod speech;
pub mod survey;
mod tag;
pub mod task;
pub mod train;
mod translate;
mod vectors;
pub mod watch;
pub mod weights;
mod word_vectors;
mod words;
mod write;
pub mod writer;

pub use error::TaskError;
pub use finished::Finished;
use hugging_face::tune::{Either, TunedClassify, TunedGenerate, TunedImages, TunedTag, TunedTranslate};
pub use opened::{Examples, Opened, open, open_as};
use run::kind_of;
pub use run::{Kind, Request, Watch};

/// Returns all tasks, in the order in which users see them.
// If this were inlined into the binary crate, the code of every task would be compiled there once more.
#[inline(never)]
pub fn kinds() -> &'static [&'static dyn Kind] {
    const KINDS: &[&dyn Kind] = &[
        &Either { own: kind_of::<translate::Translate>(), tuned: kind_of::<TunedTranslate>() },
        &Either { own: kind_of::<tag::Tag>(), tuned: kind_of::<TunedTag>() },
        &Either { own: kind_of::<classify::Classify>(), tuned: kind_of::<TunedClassify>() },
        &Either { own: kind_of::<generate::Generate>(), tuned: kind_of::<TunedGenerate>() },
        kind_of::<pretrain::Pretrain>(),
        kind_of::<words::Words>(),
        kind_of::<compose::Compose>(),
        kind_of::<vectors::VectorTask>(),
        &Either { own: kind_of::<image::Images>(), tuned: kind_of::<TunedImages>() },
        kind_of::<caption::Captions>(),
        kind_of::<graph::Nodes>(),
        kind_of::<speech::Speech>(),
        kind_of::<write::WriteTask>(),
    ];
    KINDS
}

/// Returns the task with this name.
pub fn kind(name: &str) -> Option<&'static dyn Kind> {
    kinds().iter().copied().find(|kind| kind.name() == name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use crate::Request;
    use crate::task::Task;

    /// Returns the configuration keys that a task's commented file does not mention, for one kind of network.
    fn unnamed<T: Task>(kind: &str) -> Vec<String> {
        let sets = [format!("model.kind={kind}")];
        let config: T::Config = crate::settings::resolve(T::CONFIG, None, &sets, &[]).unwrap();
        let Value::Object(sections) = serde_json::to_value(config).unwrap() else { panic!("sections") };
        let keys = sections.into_iter().flat_map(|(section, keys)| match keys {
            Value::Object(keys) => keys.into_iter().map(|(key, _)| key).collect(),
            _ => vec![section],
        });
        let named = |key: &String| {
            let begins = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{key} ="));
            T::CONFIG.lines().any(begins) || T::CONFIG.contains(&format!("[data.{key}]"))
        };
        keys.filter(|key| !named(key)).collect()
    }

    #[test]
    fn configs_of_the_results_have_no_unused_keys() {
        for (task, file) in [
            ("caption", "caption-hard"),
            ("caption", "caption-gumbel"),
            ("caption", "caption-transformer"),
            ("classify", "classify-intents"),
            ("classify", "classify-polarity"),
            ("classify", "classify-polarity-bag"),
            ("generate", "generate-book"),
            ("generate", "generate-shakespeare"),
            ("graph", "graph-cora"),
            ("image", "image-fashion-vit"),
            ("image", "image-fashion-cnn"),
            ("image", "image-fashion-attention-cnn"),
            ("tag", "tag-entities"),
            ("tag", "tag-ewt"),
            ("translate", "translate-small"),
            ("translate", "translate-tatoeba"),
            ("vectors", "vectors-pendigits"),
            ("write", "write-pendigits"),
        ] {
            let config = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../configs/{file}.toml"));
            // Some keys, such as `data.dev`, need a path; nothing is read from it.
            let data = Some(Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf());
            let request = Request { config: Some(config), data, ..Request::default() };
            let resolved = crate::kind(task).unwrap().configured(&request).unwrap();
            assert_eq!(resolved.unused, [], "{file}");
        }
    }

    #[test]
    fn default_configs_mention_every_key() {
        let none: Vec<String> = Vec::new();
        for kind in ["transformer", "rnn", "lstm", "gru"] {
            assert_eq!(unnamed::<crate::translate::Translate>(kind), none, "translate {kind}");
            assert_eq!(unnamed::<crate::tag::Tag>(kind), none, "tag {kind}");
            assert_eq!(unnamed::<crate::classify::Classify>(kind), none, "classify {kind}");
            assert_eq!(unnamed::<crate::generate::Generate>(kind), none, "generate {kind}");
            assert_eq!(unnamed::<crate::compose::Compose>(kind), none, "compose {kind}");
            assert_eq!(unnamed::<crate::vectors::VectorTask>(kind), none, "vectors {kind}");
            assert_eq!(unnamed::<crate::caption::Captions>(kind), none, "caption {kind}");
            assert_eq!(unnamed::<crate::speech::Speech>(kind), none, "speech {kind}");
        }
        for kind in ["vit", "cnn", "attention_cnn", "dnn"] {
            assert_eq!(unnamed::<crate::image::Images>(kind), none, "image {kind}");
        }
        for kind in ["gat", "gcn", "dnn"] {
            assert_eq!(unnamed::<crate::graph::Nodes>(kind), none, "graph {kind}");
        }
        assert_eq!(unnamed::<crate::TunedTranslate>("published"), none, "translate");
        assert_eq!(unnamed::<crate::tag::Tag>("intra"), none, "tag");
        assert_eq!(unnamed::<crate::classify::Classify>("bag"), none, "classify");
        assert_eq!(unnamed::<crate::vectors::VectorTask>("dnn"), none, "vectors");
        assert_eq!(unnamed::<crate::pretrain::Pretrain>("transformer"), none, "pretrain");
        // These tasks refuse label smoothing.
        assert_eq!(unnamed::<crate::words::Words>("cbow"), ["label_smoothing"], "words");
        for kind in ["synthesis", "prediction"] {
            assert_eq!(unnamed::<crate::write::WriteTask>(kind), ["label_smoothing"], "write {kind}");
        }
    }
}
