//! Numbers formatted for people.

/// Formats a number with at most `digits` significant digits, as in `0.25`, `−3`, `1.2×10⁻⁵` and `∞`. Magnitudes below 0.001
/// or above 99,999 are written with a power of ten.
pub fn number(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "NaN".to_string();
    }
    let sign = if value < 0.0 { "−" } else { "" };
    let size = value.abs();
    if size.is_infinite() {
        return format!("{sign}∞");
    }
    if size == 0.0 {
        return "0".to_string();
    }
    let digits = digits.clamp(1, 17);
    // Rounding can raise the exponent (9.99 becomes 1×10¹), so the exponent is taken from the rounded number.
    let scientific = format!("{size:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-3..5).contains(&exponent) {
        let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
        return format!("{sign}{}", trimmed(&format!("{size:.decimals$}")));
    }
    match trimmed(mantissa) {
        "1" => format!("{sign}10{}", superscript(exponent)),
        mantissa => format!("{sign}{mantissa}×10{}", superscript(exponent)),
    }
}

/// Formats a number with exactly `decimals` digits after the point, for columns and axes.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let is_zero = text.bytes().all(|b| b == b'0' || b == b'.');
    if value < 0.0 && !is_zero { format!("−{text}") } else { text }
}

/// Formats a whole number with a comma between groups of three digits.
pub fn thousands(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

fn superscript(exponent: i32) -> String {
    exponent
        .to_string()
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            digit => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize - '0' as usize],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact() {
        let cases = [
            (0.25, "0.25"),
            (-3.0, "−3"),
            (1.2e-5, "1.2×10⁻⁵"),
            (1e6, "10⁶"),
            (12345.0, "12345"),
            (0.001, "0.001"),
            (99999.9, "10⁵"),
            (f64::NEG_INFINITY, "−∞"),
            (f64::NAN, "NaN"),
            (-0.0, "0"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value, 5), expected);
        }
        assert_eq!(number(0.30000000000000004, 3), "0.3");
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(fixed(-0.25, 1), "−0.2");
        assert_eq!([0u64, 999, 1000, 68_719_476_736].map(thousands), ["0", "999", "1,000", "68,719,476,736"]);
    }
}
