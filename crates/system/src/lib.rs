//! Operating system services: file writes that survive a crash ([`save_atomically`]), and free memory ([`available_memory`]).
#![forbid(unsafe_code)]

mod memory;
mod save;

pub use memory::available_memory;
pub use save::{
    SaveError, check_folder, create_folder, remove_temporary_files, save_atomically, save_streamed, sync_folder,
};
