//! Fonts of the pictures: those of this crate, and fonts of the machine for characters that they lack.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use fontdb::{Database, FaceInfo, Source, Stretch, Style};
use skrifa::{FontRef, MetadataProvider};

use crate::text::{Face, has_glyph};

/// The fonts that a drawing needs.
pub(crate) struct Fonts {
    /// The fonts of this crate, and those of the machine that have what they lack.
    pub(crate) database: Arc<Database>,
    /// Characters that no font has, which are drawn as boxes.
    pub(crate) lacking: Vec<char>,
}

impl Fonts {
    /// The fonts for a text. The machine's are not looked at where those of this crate have everything, so that such a
    /// picture is the same on every machine.
    pub(crate) fn of(text: &str) -> Self {
        static MACHINE: OnceLock<Database> = OnceLock::new();
        Self::beside(own(), &lacking(text), || {
            MACHINE.get_or_init(|| {
                let mut machine = Database::new();
                machine.load_system_fonts();
                machine
            })
        })
    }

    /// `own` and those faces of `machine` that have one of the characters, the plain styles first.
    fn beside<'a>(mut own: Arc<Database>, lacking: &BTreeSet<char>, machine: impl FnOnce() -> &'a Database) -> Self {
        let mut left = lacking.clone();
        if !left.is_empty() {
            let machine = machine();
            let mut faces: Vec<&FaceInfo> = machine.faces().collect();
            faces.sort_by_cached_key(|face| {
                let is_odd = (face.style != Style::Normal, face.stretch != Stretch::Normal);
                (is_odd, face.weight.0.abs_diff(400), face.post_script_name.clone())
            });
            for face in faces {
                let before = left.len();
                machine.with_face_data(face.id, |data, index| keep_what_it_lacks(data, index, &mut left));
                if left.len() < before {
                    Arc::make_mut(&mut own).push_face_info(face.clone());
                }
            }
        }
        Self { database: own, lacking: left.into_iter().collect() }
    }
}

fn keep_what_it_lacks(data: &[u8], index: u32, left: &mut BTreeSet<char>) {
    if let Ok(font) = FontRef::from_index(data, index) {
        let glyphs = font.charmap();
        left.retain(|&c| glyphs.map(c).is_none());
    }
}

/// The characters of a text that are to be seen and that the fonts of this crate have no picture of.
fn lacking(text: &str) -> BTreeSet<char> {
    let is_lacking = |c: &char| !c.is_ascii() && !c.is_control() && !is_invisible(*c) && !has_glyph(*c, Face::Sans);
    text.chars().filter(is_lacking).collect()
}

/// Whether a character changes its neighbours and has no picture: joiners, directions, variants, tags.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// The fonts in this crate.
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
    fn a_font_of_the_machine_is_taken_where_it_has_what_is_missing() {
        // The monospaced face alone lacks ℓ, and the other one stands for a font of the machine.
        let (mono, sans) = (Arc::new(database(&[Face::Mono])), database(&[Face::Sans]));
        let found = Fonts::beside(mono.clone(), &BTreeSet::from(['ℓ', '日']), || &sans);
        assert_eq!((found.database.len(), found.lacking), (2, vec!['日']));
        // One that has nothing of it is not.
        let found = Fonts::beside(mono, &BTreeSet::from(['日']), || &sans);
        assert_eq!((found.database.len(), found.lacking), (1, vec!['日']));
    }

    #[test]
    fn the_machine_is_not_asked_for_what_this_crate_has() {
        let text = "plain, √d, Ελληνικά, \u{200d}\u{fe0f}";
        let found = Fonts::beside(own(), &lacking(text), || panic!("the fonts of the machine were loaded"));
        assert!(Arc::ptr_eq(&found.database, &own()) && found.lacking.is_empty());
        assert_eq!(lacking("日本 हिन्दी ไทย 👍🏽 a").len(), 13);
        let none = Database::new();
        assert_eq!(Fonts::beside(own(), &lacking("a本日"), || &none).lacking, ['日', '本']);
    }
}
