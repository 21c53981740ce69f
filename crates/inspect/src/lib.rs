//! Looking inside attention models: attention maps ([`AttentionView`]), mechanisms shown by numbers ([`show`]), and what a
//! described model costs ([`count`]).
#![forbid(unsafe_code)]

mod attention;
pub mod count;
mod error;
pub mod show;

pub use attention::{AttentionView, HeadMap, MapGroup, ViewFormat};
pub use error::InspectError;
