//! Parsers of arguments. An error says what is allowed; clap adds the name of the argument.

use std::num::IntErrorKind;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use regard_tasks::Kind;

/// Parses the name of a task.
pub fn task() -> impl TypedValueParser<Value = &'static dyn Kind> {
    PossibleValuesParser::new(regard_tasks::kinds().iter().map(|kind| kind.name()))
        .map(|name| regard_tasks::kind(&name).expect("only names of tasks pass"))
}

/// Parses a whole number of at least 0.
pub fn from_zero<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    whole(text, 0)
}

/// Parses a whole number of at least 1.
pub fn from_one<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    whole(text, 1)
}

/// Parses a finite number, with or without a fraction.
pub fn number(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "expected a number, such as 0.5".to_string())
}

/// Lets a flag take negative numbers, so that its own parser refuses −1 and says what is allowed.
pub fn take_negatives(arg: clap::Arg) -> clap::Arg {
    let takes_values = arg.get_action().takes_values();
    arg.allow_negative_numbers(takes_values)
}

fn whole<T: TryFrom<u64>>(text: &str, least: u64) -> Result<T, String> {
    let too_large = || "too large for a whole number".to_string();
    match text.parse::<u64>() {
        Ok(value) if value >= least => T::try_from(value).map_err(|_| too_large()),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(too_large()),
        _ => Err(format!("expected a whole number, {least} or more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_is_allowed() {
        assert_eq!((from_zero("0"), from_one("7")), (Ok(0usize), Ok(7u64)));
        for wrong in ["-1", "", "1.5", "two", "1e3"] {
            assert_eq!(from_zero::<usize>(wrong).unwrap_err(), "expected a whole number, 0 or more");
            assert_eq!(from_one::<u64>(wrong).unwrap_err(), "expected a whole number, 1 or more");
        }
        assert!(from_one::<usize>("0").is_err());
        assert!(from_zero::<u8>("256").unwrap_err().contains("too large"));
        assert!(from_zero::<u64>("99999999999999999999").unwrap_err().contains("too large"));
        assert_eq!(number("-0.5"), Ok(-0.5));
        assert!(number("x").is_err() && number("nan").is_err() && number("inf").is_err());
    }
}
