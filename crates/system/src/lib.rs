//! Operating system services: file writes that survive a crash ([`save_atomically`]), free memory ([`available_memory`]), and
//! processes that work together ([`Ranks`]).
#![forbid(unsafe_code)]

mod memory;
mod ranks;
mod save;

pub use memory::available_memory;
pub use ranks::{Alone, RankFailed, Ranks, World, simulated};
pub use save::{
    SaveError, check_folder, create_folder, remove_temporary_files, save_atomically, save_streamed, sync_folder,
};
