//! Scripts written without spaces between words.

/// Number of letters that are examined to decide whether texts lack spaces.
const LOOKED_AT: usize = 1_000_000;
/// Longest run of letters that may be a word: in Chinese and Japanese, and in the other scripts.
const LONGEST_WORDS: (usize, usize) = (4, 8);

/// Whether a letter belongs to a script without spaces between words: Chinese, Japanese, Thai, Lao, Khmer or Burmese.
pub fn is_unspaced(c: char) -> bool {
    is_east_asian(c)
        || matches!(u32::from(c), 0x0E01..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17D3 | 0xA9E0..=0xA9FF | 0xAA60..=0xAA7F)
}

/// Whether a letter is Chinese or Japanese.
pub fn is_east_asian(c: char) -> bool {
    is_han(c)
        || matches!(u32::from(c), 0x3041..=0x309F | 0x30A1..=0x30FA | 0x30FC..=0x30FF | 0x31F0..=0x31FF | 0xFF66..=0xFF9F)
}

/// Whether a letter is a Chinese character, which is often a word by itself.
pub fn is_han(c: char) -> bool {
    matches!(u32::from(c), 0x3005..=0x3007 | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF)
}

/// Whether spaces do not separate the words of the texts: most letters are in runs that are longer than words. Texts of
/// these scripts that are already cut into words do have spaces.
pub fn lacks_spaces<'a>(texts: impl IntoIterator<Item = &'a str>) -> bool {
    let (mut letters, mut in_long_runs) = (0, 0);
    for text in texts {
        let (mut run, mut longest_word) = (0, LONGEST_WORDS.1);
        for c in text.chars().chain(['\n']) {
            if is_unspaced(c) {
                run += 1;
                if is_east_asian(c) {
                    longest_word = LONGEST_WORDS.0;
                }
                continue;
            }
            letters += run + usize::from(c.is_alphabetic());
            if run > longest_word {
                in_long_runs += run;
            }
            (run, longest_word) = (0, LONGEST_WORDS.1);
        }
        if letters > LOOKED_AT {
            break;
        }
    }
    2 * in_long_runs > letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_spaces_are_recognised() {
        for text in ["这部电影很好，我非常喜欢。", "この映画はとても面白かったです。", "ฉันชอบหนังเรื่องนี้มาก"]
        {
            assert!(lacks_spaces([text]), "{text}");
        }
        for text in [
            "I liked it.",
            "这 部 电影 很 好 ， 我 非常 喜欢 。",
            "영화가 정말 재미있었어요",
            "the word 电影院 in English",
            "",
        ] {
            assert!(!lacks_spaces([text]), "{text}");
        }
        assert!(!is_unspaced('a') && !is_unspaced('。') && is_unspaced('ー') && is_han('々'));
    }
}
