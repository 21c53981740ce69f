//! Inspection of attention models: attention maps ([`AttentionView`]), mechanisms explained with numbers ([`show`]), and the
//! parameters, operations and memory of a described model ([`count`]).
#![forbid(unsafe_code)]

mod attention;
pub mod count;
mod error;
pub mod show;

pub use attention::{AttentionView, HeadMap, MapGroup, ViewFormat, page_files, rollout};
pub use error::InspectError;
