//! Text: the embedded fonts, and measuring, shortening, wrapping and escaping of text.

use std::io::Read;
use std::sync::OnceLock;

use flate2::read::ZlibDecoder;
use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider};

/// One of the two embedded font faces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    /// Sans-serif face, for names and words.
    Sans,
    /// Monospaced face, for numbers and code.
    Mono,
}

impl Face {
    /// Returns the content of the font file, which is unpacked when it is first asked for.
    pub(crate) fn data(self) -> &'static [u8] {
        static SANS: OnceLock<Vec<u8>> = OnceLock::new();
        static MONO: OnceLock<Vec<u8>> = OnceLock::new();
        match self {
            Self::Sans => SANS.get_or_init(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/sans")))),
            Self::Mono => MONO.get_or_init(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/mono")))),
        }
    }

    /// Returns the font families for SVG and HTML. Verdana is about as wide, the generic families are narrower, so text fits.
    pub(crate) fn families(self) -> &'static str {
        match self {
            Self::Sans => "DejaVu Sans, Verdana, sans-serif",
            Self::Mono => "DejaVu Sans Mono, Menlo, Consolas, monospace",
        }
    }
}

/// Unpacks what the build script has packed.
fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    ZlibDecoder::new(packed).read_to_end(&mut content).expect("the build script has packed it");
    content
}

/// Returns the width of a line in pixels.
pub(crate) fn width(text: &str, size: f64, face: Face) -> f64 {
    text.chars().map(|c| advance(c, face)).sum::<f64>() * size
}

/// Whether an embedded face has a glyph for a character.
pub(crate) fn has_glyph(c: char, face: Face) -> bool {
    fonts()[face as usize].charmap().map(c).is_some()
}

/// Returns the text, or its beginning and `…` if it is wider than `limit` pixels.
pub(crate) fn shorten(text: &str, size: f64, face: Face, limit: f64) -> String {
    if width(text, size, face) <= limit {
        return text.to_string();
    }
    let mut left = limit / size - advance('…', face);
    let mut short = String::new();
    for c in text.chars() {
        left -= advance(c, face);
        if left < 0.0 {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

/// Breaks a text into lines of at most `limit` pixels, at spaces or inside words that are longer than a line.
pub(crate) fn wrap(text: &str, size: f64, face: Face, limit: f64) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        let mut used = 0.0;
        for word in paragraph.split_inclusive(' ') {
            let word_width = width(word.trim_end(), size, face);
            if used > 0.0 && used + word_width > limit {
                lines.push(std::mem::take(&mut line).trim_end().to_string());
                used = 0.0;
            }
            for c in word.chars() {
                let step = advance(c, face) * size;
                if used > 0.0 && used + step > limit && c != ' ' {
                    lines.push(std::mem::take(&mut line));
                    used = 0.0;
                }
                line.push(c);
                used += step;
            }
        }
        lines.push(line.trim_end().to_string());
    }
    lines
}

/// Makes the white space of a token visible: leading and trailing spaces as `␣`, a line break as `↵`, a tab as `⇥`.
pub fn visible(token: &str) -> String {
    let inner = token.trim_matches(' ');
    let before = token.len() - token.trim_start_matches(' ').len();
    let after = if inner.is_empty() { 0 } else { token.len() - token.trim_end_matches(' ').len() };
    let mut shown = "␣".repeat(before);
    shown.extend(inner.chars().map(|c| match c {
        '\n' => '↵',
        '\r' => '⇤',
        '\t' => '⇥',
        c if c.is_control() => '�',
        c => c,
    }));
    shown + &"␣".repeat(after)
}

/// Escapes markup for XML and HTML, and replaces characters that XML forbids by `�`.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            '\u{fffe}' | '\u{ffff}' => escaped.push('�'),
            c if c.is_control() => escaped.push('�'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns the width of a character as a fraction of the font size. Characters that neither face has are drawn with another
/// font; they are taken to be square, like Chinese ones.
fn advance(c: char, face: Face) -> f64 {
    let fonts = fonts();
    for font in [&fonts[face as usize], &fonts[0]] {
        if let Some(glyph) = font.charmap().map(c) {
            let metrics = font.glyph_metrics(Size::new(1.0), LocationRef::default());
            return metrics.advance_width(glyph).map_or(1.0, f64::from);
        }
    }
    1.0
}

fn fonts() -> &'static [FontRef<'static>; 2] {
    static FONTS: OnceLock<[FontRef<'static>; 2]> = OnceLock::new();
    FONTS.get_or_init(|| {
        [Face::Sans, Face::Mono].map(|face| FontRef::new(face.data()).expect("the embedded font is valid"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All special characters in the labels of our own figures.
    const OURS: &str = "√·×−≈≠≤≥±∞…→←↑↓↔⇥⇤↵␣�∂∇∑∏∫∈∉⊙⊗⊕∘⟨⟩‖|λμσαβγδεηθκπρτφψωΓΔΘΛΣΦΨΩℓℝᵀ⁻⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉ᵢⱼₙₖ°µ–—‘’“”éüßñçøåłŞЖЯ▁Ġ✓✗█░";

    #[test]
    fn every_character_we_use_has_a_glyph() {
        for c in (' '..='~').chain('\u{a0}'..='\u{17f}').chain('Α'..='Ρ').chain('α'..='ω').chain(OURS.chars()) {
            assert!(has_glyph(c, Face::Sans), "no glyph for {c} (U+{:04X})", c as u32);
        }
        let missing: String = OURS.chars().filter(|&c| !has_glyph(c, Face::Mono)).collect();
        assert_eq!(missing, "ℓ", "only ℓ may come from the sans-serif face");
    }

    #[test]
    fn shortened_text_fits() {
        let long = "a very long label indeed";
        let short = shorten(long, 12.0, Face::Sans, 60.0);
        assert!(short.ends_with('…') && width(&short, 12.0, Face::Sans) <= 60.0);
        assert_eq!(shorten("cat", 12.0, Face::Sans, 60.0), "cat");
    }

    #[test]
    fn wrapped_lines_fit_and_lose_nothing() {
        let text = "words and averyveryverylongwordthatfitsnoline at all";
        let lines = wrap(text, 12.0, Face::Sans, 80.0);
        assert!(lines.iter().all(|line| width(line, 12.0, Face::Sans) <= 80.0), "{lines:?}");
        let squeeze = |s: &str| s.replace(' ', "");
        assert_eq!(squeeze(&lines.concat()), squeeze(text));
    }

    #[test]
    fn white_space_is_visible() {
        assert_eq!(visible(" the"), "␣the");
        assert_eq!(visible("  "), "␣␣");
        assert_eq!(visible("a b \n"), "a b ↵");
        assert_eq!(escape("<a & \"b\">\u{0}"), "&lt;a &amp; &quot;b&quot;&gt;�");
    }
}
