//! Joins French words: elision (l', j', n', qu'), contraction (au, du, aux, des) and the agreement of participles.

use super::lexicon::{Gender, Number, WORDS};

/// French words in order. They are joined at the end, when the neighbours of each are known.
#[derive(Debug, Default)]
pub(super) struct French {
    words: Vec<Word>,
}

#[derive(Debug)]
struct Word {
    text: String,
    role: Role,
}

/// The role of a word. Only an article contracts: "du livre", but "le droit de le voir".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Article,
    Other,
}

impl French {
    pub fn push(&mut self, text: impl Into<String>) {
        self.words.push(Word { text: text.into(), role: Role::Other });
    }

    pub fn article(&mut self, text: impl Into<String>) {
        self.words.push(Word { text: text.into(), role: Role::Article });
    }

    /// Joins the words to a sentence with a capital first letter and the mark at the end.
    pub fn finish(self, mark: &str) -> String {
        let mut line = String::new();
        let mut glued = true;
        let mut skip = false;
        for (index, word) in self.words.iter().enumerate() {
            if std::mem::take(&mut skip) {
                continue;
            }
            let next = self.words.get(index + 1);
            let (text, elided) = if let Some(text) = self.contracted(index) {
                skip = true;
                (text.to_string(), false)
            } else if elides(&word.text) && next.is_some_and(|next| starts_with_vowel(&next.text)) {
                (format!("{}'", &word.text[..word.text.len() - 1]), true)
            } else {
                (word.text.clone(), false)
            };
            if !glued && text != "," {
                line.push(' ');
            }
            line.push_str(&text);
            glued = elided;
        }
        // French puts a space before a question mark.
        line.push_str(if mark == "?" { " ?" } else { mark });
        capitalised(&line)
    }

    /// The contraction of the words at `index` and `index + 1`, if they contract.
    fn contracted(&self, index: usize) -> Option<&'static str> {
        let article = self.words.get(index + 1).filter(|word| word.role == Role::Article)?;
        let elided = self.words.get(index + 2).is_some_and(|next| starts_with_vowel(&next.text));
        match (self.words[index].text.as_str(), article.text.as_str()) {
            ("de", "le") if !elided => Some("du"),
            ("à", "le") if !elided => Some("au"),
            ("de", "les") => Some("des"),
            ("à", "les") => Some("aux"),
            _ => None,
        }
    }
}

fn elides(word: &str) -> bool {
    matches!(word, "le" | "la" | "je" | "me" | "te" | "ne" | "de" | "que")
}

/// Whether the previous word must elide or take its form before a vowel.
pub(super) fn starts_with_vowel(word: &str) -> bool {
    let first = word.chars().next().map(|first| first.to_lowercase().next().unwrap_or(first));
    match first {
        Some('h') => !WORDS.aspirated.contains(&word),
        Some(first) => "aàâeéèêiîoôuûyœ".contains(first),
        None => false,
    }
}

/// The text with a capital first letter.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A past participle with the endings of gender and number.
pub(super) fn participle(masculine: &str, gender: Gender, number: Number) -> String {
    let mut form = masculine.to_string();
    if gender == Gender::Feminine {
        form.push('e');
    }
    if number == Number::Plural && !form.ends_with('s') {
        form.push('s');
    }
    form
}
