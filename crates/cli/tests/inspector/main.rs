//! The inspector of `regard serve`, in a headless Chromium. Without chromium and chromedriver these tests say so and pass.

#[path = "../binary/mod.rs"]
mod binary;
mod browser;
#[allow(dead_code, reason = "the tests of the routes use the rest")]
#[path = "../serve/client.rs"]
mod client;
mod inputs;
mod learning;
mod look;
mod models;
mod quality;
mod question;
mod runs;
mod screenshots;
mod sharing;
