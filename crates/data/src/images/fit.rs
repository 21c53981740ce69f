//! The size and the colours that all pictures of a data set are brought to.

use super::ImageSize;
use super::decode::{self, Header};
use crate::DataError;
use crate::file::read_bytes;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Height and width of pictures that differ in size, unless they are given.
const SIDE: usize = 32;

/// The size and the colours of pictures, as far as they are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// Height and width. Without them: the size of the pictures if it is the same for all, else 32 × 32.
    pub size: Option<Side>,
    /// Grey or colour.
    pub colours: Colours,
}

/// Height and width of a picture: one number for both, or `[height, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "one number, or [height, width]")]
pub enum Side {
    /// A square.
    Square(usize),
    /// Height and width.
    Sides([usize; 2]),
}

impl Side {
    /// Height and width.
    pub fn sides(self) -> [usize; 2] {
        match self {
            Self::Square(side) => [side, side],
            Self::Sides(sides) => sides,
        }
    }
}

/// The colours that pictures are brought to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Colours {
    /// Grey if all pictures are stored in grey, else colour.
    #[default]
    Auto,
    /// One channel, brightness.
    Grey,
    /// Red, green and blue.
    Rgb,
}

impl Fit {
    /// The size for pictures with these headers, and a note if they are resized although no size was given.
    pub(super) fn resolve(&self, headers: &[Header]) -> (ImageSize, Option<String>) {
        let channels = match self.colours {
            Colours::Auto if headers.iter().all(|header| header.is_grey) => 1,
            Colours::Grey => 1,
            Colours::Auto | Colours::Rgb => 3,
        };
        let same = headers
            .first()
            .filter(|first| headers.iter().all(|header| (header.height, header.width) == (first.height, first.width)));
        let (height, width, note) = match (self.size.map(Side::sides), same) {
            (Some([height, width]), _) => (height, width, None),
            (None, Some(first)) => (first.height, first.width, None),
            (None, None) => {
                let note =
                    format!("the pictures differ in size and are resized to {SIDE} × {SIDE}; data.size changes it");
                (SIDE, SIDE, (!headers.is_empty()).then_some(note))
            }
        };
        (ImageSize { channels, height, width }, note)
    }
}

impl From<ImageSize> for Fit {
    /// The request for exactly this size.
    fn from(size: ImageSize) -> Self {
        let colours = if size.channels == 1 { Colours::Grey } else { Colours::Rgb };
        Self { size: Some(Side::Sides([size.height, size.width])), colours }
    }
}

/// Reads size and colours of a picture file.
pub(super) fn header(path: &Path) -> Result<Header, DataError> {
    decode::header(&read_bytes(path)?).map_err(|(expected, found)| DataError::format(path, expected, found))
}
