//! The inspector: a page over the models, whose files are in the program.

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue};
use regard_inspect::page_files;

use crate::body::{Response, response};
use crate::error::ApiError;
use crate::packed::{Packed, packed};

/// Path of the page itself.
pub const PAGE: &str = "/";
/// Beginning of the paths of its files.
pub const FILES: &str = "/page/";

/// What the page may load and do: its own files and routes of this server, nothing else. Pictures and sounds may also come from
/// the memory of the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
                      media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
struct File {
    name: &'static str,
    content: Packed,
}

/// Embeds files of the folder `page`.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(File { name: $name, content: packed!($name) }),*]
    };
}

/// All files of the folder. `index.html` is the page.
const EMBEDDED: &[File] = files![
    "api.js",
    "compare.js",
    "cost.js",
    "curves.js",
    "formula.js",
    "gaze.js",
    "graph.js",
    "icon.svg",
    "index.html",
    "ink.js",
    "inputs.js",
    "learn.js",
    "lens.js",
    "lessons.js",
    "look.js",
    "main.js",
    "options.js",
    "pair.js",
    "picture.js",
    "prediction.js",
    "question.js",
    "runs.js",
    "share.js",
    "sound.js",
    "source.js",
    "state.js",
    "status.js",
    "style.css",
    "watch.js",
    "words.js",
];

/// Returns the content of a file: one of the folder, or one of the drawing of attention, which pages of `regard look` share.
fn content(name: &str) -> Option<String> {
    let own = EMBEDDED.iter().find(|file| file.name == name).map(|file| file.content.text());
    own.or_else(|| page_files().find(|(known, _)| *known == name).map(|(_, text)| text.to_string()))
}

/// Answers with a file by its name, such as `style.css`.
pub fn file(name: &str) -> Result<Response, ApiError> {
    let Some(content) = content(name) else {
        let said = format!("the page has no file {}", regard_data::excerpt(name));
        return Err(ApiError::new(StatusCode::NOT_FOUND, "unknown_file", said));
    };
    let mut answer = response(StatusCode::OK, content_type(name), content);
    let headers = [
        (CONTENT_SECURITY_POLICY, POLICY),
        // Another version of the program has other files under the same names.
        (CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(answer)
}

/// Answers with the page.
pub fn index() -> Result<Response, ApiError> {
    file("index.html")
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Largest size of all scripts and styles together, so that the page opens at once.
    const MOST_BYTES: usize = 250_000;

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut found: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        found.sort();
        let mut embedded: Vec<&str> = EMBEDDED.iter().map(|file| file.name).collect();
        embedded.sort_unstable();
        assert_eq!(found, embedded);
        let shared: usize = page_files().map(|(_, text)| text.len()).sum();
        assert!(EMBEDDED.iter().map(|file| file.content.text().len()).sum::<usize>() + shared <= MOST_BYTES);
    }

    #[test]
    fn every_module_that_is_imported_is_served() {
        let texts =
            EMBEDDED.iter().filter(|file| file.name.ends_with(".js")).map(|file| (file.name, file.content.text()));
        let shared = page_files().map(|(name, text)| (name, text.to_string()));
        for (name, text) in texts.chain(shared) {
            assert!(EMBEDDED.iter().filter(|file| file.name == name).count() <= 1, "{name} twice");
            for part in text.split("from \"./").skip(1) {
                let wanted = part.split('"').next().unwrap();
                assert!(content(wanted).is_some(), "{name} imports {wanted}");
            }
        }
    }

    #[test]
    fn the_page_has_no_inline_script_or_style_and_fetches_nothing_from_elsewhere() {
        let page = content("index.html").unwrap();
        for wrong in ["<style", " style=", " onclick=", "javascript:", "http://", "https://"] {
            assert!(!page.contains(wrong), "{wrong}");
        }
        assert!(
            page.matches("<script").count() == page.matches("<script type=\"module\" src=\"/page/").count(),
            "{page}"
        );
    }
}
