//! `regard serve`, driven over loopback by a small client.

#[path = "../binary/mod.rs"]
mod binary;
mod client;
mod hostile;
mod inspector;
mod life;
mod load;
mod routes;
mod runs;
mod texts;
