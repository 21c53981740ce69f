//! Fonts of the pictures: the embedded fonts, and system fonts for characters that these lack.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use fontdb::{Database, FaceInfo, Source, Stretch, Style};
use skrifa::{FontRef, MetadataProvider};

use crate::text::{Face, has_glyph};

/// The fonts that a drawing needs.
pub(crate) struct Fonts {
    /// The embedded fonts, and the system fonts that have characters they lack.
    pub(crate) database: Arc<Database>,
    /// Characters that no font has. They are drawn as boxes.
    pub(crate) lacking: Vec<char>,
}

impl Fonts {
    /// Returns the fonts for a text. System fonts are loaded only if the embedded fonts lack a character, so that a picture
    /// without such characters is the same on every machine.
    pub(crate) fn of(text: &str) -> Self {
        static SYSTEM: OnceLock<Database> = OnceLock::new();
        Self::complete(own(), &lacking(text), || {
            SYSTEM.get_or_init(|| {
                let mut system = Database::new();
                system.load_system_fonts();
                system
            })
        })
    }

    /// Adds to `own` the system faces that have one of the `lacking` characters, trying plain styles first.
    fn complete<'a>(mut own: Arc<Database>, lacking: &BTreeSet<char>, system: impl FnOnce() -> &'a Database) -> Self {
        let mut left = lacking.clone();
        if !left.is_empty() {
            let system = system();
            let mut faces: Vec<&FaceInfo> = system.faces().collect();
            faces.sort_by_cached_key(|face| {
                let is_odd = (face.style != Style::Normal, face.stretch != Stretch::Normal);
                (is_odd, face.weight.0.abs_diff(400), face.post_script_name.clone())
            });
            for face in faces {
                let before = left.len();
                system.with_face_data(face.id, |data, index| remove_covered(data, index, &mut left));
                if left.len() < before {
                    Arc::make_mut(&mut own).push_face_info(face.clone());
                }
            }
        }
        Self { database: own, lacking: left.into_iter().collect() }
    }
}

/// Removes from `left` the characters that a face has.
fn remove_covered(data: &[u8], index: u32, left: &mut BTreeSet<char>) {
    if let Ok(font) = FontRef::from_index(data, index) {
        let glyphs = font.charmap();
        left.retain(|&c| glyphs.map(c).is_none());
    }
}

/// Returns the visible characters of a text that the embedded fonts lack.
fn lacking(text: &str) -> BTreeSet<char> {
    let is_lacking = |c: &char| !c.is_ascii() && !c.is_control() && !is_invisible(*c) && !has_glyph(*c, Face::Sans);
    text.chars().filter(is_lacking).collect()
}

/// Whether a character has no glyph of its own and only affects its neighbours: joiners, directions, variants, tags.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the embedded fonts.
fn own() -> Arc<Database> {
    static OWN: OnceLock<Arc<Database>> = OnceLock::new();
    Arc::clone(OWN.get_or_init(|| Arc::new(database(&[Face::Sans, Face::Mono]))))
}

fn database(faces: &[Face]) -> Database {
    let mut fonts = Database::new();
    for face in faces {
        fonts.load_font_source(Source::Binary(Arc::new(face.data())));
    }
    fonts.set_sans_serif_family("DejaVu Sans");
    fonts.set_monospace_family("DejaVu Sans Mono");
    fonts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_font_is_added_if_it_has_a_missing_character() {
        // Only the monospaced face lacks ℓ. The other face stands for a system font.
        let (mono, sans) = (Arc::new(database(&[Face::Mono])), database(&[Face::Sans]));
        let found = Fonts::complete(mono.clone(), &BTreeSet::from(['ℓ', '日']), || &sans);
        assert_eq!((found.database.len(), found.lacking), (2, vec!['日']));
        // A font without any of the missing characters is not added.
        let found = Fonts::complete(mono, &BTreeSet::from(['日']), || &sans);
        assert_eq!((found.database.len(), found.lacking), (1, vec!['日']));
    }

    #[test]
    fn system_fonts_are_loaded_only_if_a_character_is_missing() {
        let text = "plain, √d, Ελληνικά, \u{200d}\u{fe0f}";
        let found = Fonts::complete(own(), &lacking(text), || panic!("system fonts were loaded"));
        assert!(Arc::ptr_eq(&found.database, &own()) && found.lacking.is_empty());
        assert_eq!(lacking("日本 हिन्दी ไทย 👍🏽 a").len(), 13);
        let none = Database::new();
        assert_eq!(Fonts::complete(own(), &lacking("a本日"), || &none).lacking, ['日', '本']);
    }
}
