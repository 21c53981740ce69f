//! The log: a line on standard error for each answer and each event, as text or as JSON.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON document per line.
    Json,
    /// Events only, as text, no line for each answer.
    Quiet,
    /// Nothing.
    Off,
}

/// An answer, for the log.
pub struct Answered<'a> {
    /// Identifier that the client gets, too.
    pub id: &'a str,
    /// Method of the request.
    pub method: &'a str,
    /// Path of the request.
    pub path: &'a str,
    /// Status of the answer.
    pub status: u16,
    /// Time until the answer was sent.
    pub took: Duration,
}

impl LogFormat {
    /// Writes a line about an answer.
    pub fn answered(self, answered: &Answered) {
        let Answered { id, method, path, status, took } = *answered;
        let milliseconds = took.as_secs_f64() * 1e3;
        // A path may hold anything; no line of the log should come from a client.
        let path: String = path.chars().filter(|c| !c.is_control()).take(200).collect();
        match self {
            Self::Quiet | Self::Off => {}
            Self::Text => write_line(&format!("{} {id} {method} {path} {status} {milliseconds:.1} ms", now())),
            Self::Json => self.json(json!({
                "event": "request", "id": id, "method": method, "path": path, "status": status,
                "milliseconds": (milliseconds * 1e3).round() / 1e3,
            })),
        }
    }

    /// Writes a line about an event, such as the start of the server.
    pub fn event(self, what: &str, more: Value) {
        match self {
            Self::Text | Self::Quiet => {
                let fields = more.as_object().into_iter().flatten();
                let fields: Vec<String> = fields
                    .map(|(key, value)| format!("{key} {}", value.as_str().map_or(value.to_string(), str::to_string)))
                    .collect();
                write_line(&format!("{} {what}: {}", now(), fields.join(", ")));
            }
            Self::Json => {
                let mut document = json!({ "event": what });
                if let (Value::Object(all), Value::Object(more)) = (&mut document, more) {
                    all.extend(more);
                }
                self.json(document);
            }
            Self::Off => {}
        }
    }

    fn json(self, mut document: Value) {
        document["time"] = Value::from(now());
        write_line(&document.to_string());
    }
}

/// Writes a line on standard error. A closed or full pipe must not stop the server.
fn write_line(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Returns the time in UTC, as `2026-01-31T12:00:00.123Z`.
fn now() -> String {
    stamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn stamp(since: Duration) -> String {
    let (days, of_day) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years of March to February have their leap day at the end; 1970-01-01 is day 719,468 after 0000-03-01.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, (shifted + 2) % 12 + 1);
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(stamp(Duration::ZERO), "1970-01-01T00:00:00.000Z");
        assert_eq!(stamp(Duration::from_millis(951_782_400_000 + 3_661_007)), "2000-02-29T01:01:01.007Z");
        assert_eq!(stamp(Duration::from_secs(1_735_689_599)), "2024-12-31T23:59:59.000Z");
    }
}
