//! Who may ask: the token, the `Host` and the `Origin` of a request.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use hyper::{StatusCode, Uri, Version};

use crate::error::ApiError;
use crate::page::{FILES, PAGE};

/// Routes that need no token: a supervisor asks whether the server lives, and a browser that opens the page cannot send one.
const OPEN: [&str; 4] = ["/livez", "/readyz", "/health", PAGE];

/// Decides who may ask.
#[derive(Clone)]
pub struct Guard {
    token: Option<String>,
    /// Names of this server, beside `localhost` and addresses.
    hosts: Vec<String>,
    /// Origins of web pages that may ask.
    origins: Vec<String>,
}

impl Guard {
    /// Creates a guard. `hosts` are names under which clients reach the server, `origins` web pages that may ask.
    pub fn new(token: Option<String>, hosts: Vec<String>, origins: Vec<String>) -> Self {
        let small = |all: Vec<String>| all.into_iter().map(|one| one.to_ascii_lowercase()).collect();
        Self { token, hosts: small(hosts), origins: small(origins) }
    }

    /// Returns an error if a request is not allowed.
    pub fn check(&self, uri: &Uri, version: Version, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = match (headers.get(HOST), uri.authority()) {
            (Some(host), _) => host.to_str().unwrap_or_default().to_ascii_lowercase(),
            (None, Some(authority)) => authority.as_str().to_ascii_lowercase(),
            (None, None) if version < Version::HTTP_11 => "localhost".to_string(),
            (None, None) => {
                return Err(ApiError::new(StatusCode::BAD_REQUEST, "missing_host", "expected a Host header"));
            }
        };
        if !self.knows(&host) {
            // A page of another site whose name leads to this machine (DNS rebinding) would have that name here.
            let said = format!("{} is not a name of this server; --host adds one", regard_data::excerpt(&host));
            return Err(ApiError::new(StatusCode::FORBIDDEN, "foreign_host", said));
        }
        if let Some(origin) = headers.get(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
            let is_own = origin.split_once("://").is_some_and(|(_, rest)| rest == host);
            if !is_own && !self.origins.contains(&origin) {
                let said = format!("pages of {} may not ask; --origin allows them", regard_data::excerpt(&origin));
                return Err(ApiError::new(StatusCode::FORBIDDEN, "foreign_origin", said));
            }
        }
        let Some(token) = &self.token else { return Ok(()) };
        if OPEN.contains(&uri.path()) || uri.path().starts_with(FILES) {
            return Ok(());
        }
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given =
            given.and_then(|value| value.split_once(' ')).filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
        match given {
            Some((_, given)) if equal(given.trim().as_bytes(), token.as_bytes()) => Ok(()),
            _ => {
                let said = "expected the header Authorization: Bearer with the token of this server";
                Err(ApiError::new(StatusCode::UNAUTHORIZED, "invalid_token", said))
            }
        }
    }

    /// Returns whether a `Host` is an address, `localhost` or a name of this server. A page cannot take an address as its name.
    fn knows(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
            _ => host,
        };
        let is_address = host.parse::<SocketAddr>().is_ok()
            || name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        is_address || name == "localhost" || self.hosts.iter().any(|known| known == name || known == host)
    }
}

/// Compares without stopping at the first difference, so that the time tells nothing about the token.
fn equal(given: &[u8], token: &[u8]) -> bool {
    let mut difference = given.len() ^ token.len();
    for (at, byte) in token.iter().enumerate() {
        difference |= usize::from(byte ^ given.get(at).copied().unwrap_or(!byte));
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(guard: &Guard, path: &str, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let found = guard.check(&path.parse().unwrap(), Version::HTTP_11, &map);
        found.map_or_else(|error| error.status().as_u16(), |()| 200)
    }

    #[test]
    fn only_names_of_the_server_are_answered() {
        let guard = Guard::new(None, vec!["Models.example".into()], vec!["https://app.example".into()]);
        for host in ["127.0.0.1:8080", "localhost:8080", "localhost", "[::1]:8080", "10.0.0.7", "models.example:80"] {
            assert_eq!(status(&guard, "/info", &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example", "evil.example:8080", "localhost.evil.example", ""] {
            assert_ne!(status(&guard, "/info", &[("host", host)]), 200, "{host}");
        }
        assert_eq!(status(&guard, "/info", &[]), 400);
        let from = |origin| status(&guard, "/info", &[("host", "localhost:8080"), ("origin", origin)]);
        assert_eq!(["http://localhost:8080", "https://app.example"].map(from), [200; 2]);
        assert_eq!(["https://evil.example", "null", "http://localhost:9"].map(from), [403; 3]);
    }

    #[test]
    fn a_token_is_asked_for_except_about_life() {
        let guard = Guard::new(Some("secret".into()), vec![], vec![]);
        let with = |path, token| status(&guard, path, &[("host", "localhost"), ("authorization", token)]);
        assert_eq!(with("/info", "Bearer secret"), 200);
        for wrong in ["Bearer secre", "Bearer secrets", "Bearer ", "secret", "Basic secret", ""] {
            assert_eq!(with("/info", wrong), 401, "{wrong}");
        }
        assert_eq!(["/livez", "/", "/page/style.css"].map(|path| with(path, "")), [200; 3]);
        assert_eq!(["/page", "/v1/predict", "/v1/runs/page/"].map(|path| with(path, "")), [401; 3]);
    }
}
