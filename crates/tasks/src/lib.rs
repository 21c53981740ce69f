//! One module a task: data, model, loss, metric, prediction; and the trainer that all of them share.
#![forbid(unsafe_code)]

mod classify;
pub mod compare;
mod compose;
pub mod decode;
mod error;
pub mod folder;
mod generate;
mod look;
mod memory;
pub mod metrics;
mod model;
mod plain_text;
mod pretrain;
mod pretrained;
mod report;
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
