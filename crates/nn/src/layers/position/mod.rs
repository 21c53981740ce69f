//! Where a token stands.

pub mod floater;
pub mod recurrent;

use crate::error::NnError;

/// The most positions a path is computed for.
const MOST_POSITIONS: usize = 1 << 24;

/// `offset + seq − 1`; refuses no positions at all, and more than can be meant.
fn last_position(seq: usize, offset: usize) -> Result<usize, NnError> {
    match offset.checked_add(seq) {
        Some(end) if seq > 0 && end <= MOST_POSITIONS => Ok(end - 1),
        _ => {
            let expected = format!("at least 1, up to position {MOST_POSITIONS}");
            Err(NnError::input("seq", expected, format!("{seq} from position {offset}")))
        }
    }
}
