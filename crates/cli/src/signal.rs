//! Ctrl-C and its like: a run is asked to stop, and the command ends with the code that shells give to the signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use regard_tasks::train::Stop;
#[cfg(unix)]
use signal_hook::consts::SIGHUP;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::print::tell;

/// The signals that ask a run to stop: Ctrl-C, `kill`, and a terminal that is closed.
#[cfg(unix)]
const ASK_TO_STOP: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
#[cfg(not(unix))]
const ASK_TO_STOP: [i32; 2] = [SIGINT, SIGTERM];

/// How often the signals are looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The command was stopped by a signal, and all that is to be said of it has been said. The number is its exit code: 130 after
/// Ctrl-C, 143 after SIGTERM, 129 after a closed terminal.
#[derive(Debug, thiserror::Error)]
#[error("stopped by a signal")]
pub struct Stopped(pub u8);

/// What hears signals.
pub struct Signals {
    /// Asked when the first signal comes.
    pub stop: Stop,
    /// The number of the last signal; 0 before the first.
    number: Arc<AtomicUsize>,
}

impl Signals {
    /// Fails with the signal's code if one has come.
    pub fn check(&self) -> Result<()> {
        match self.number.load(Ordering::Relaxed) {
            0 => Ok(()),
            number => Err(Stopped(128 + number as u8).into()),
        }
    }
}

/// The first signal asks a run to stop and says what is kept; a second one ends the program at once.
pub fn stop_on_signal(kept: &'static str) -> Result<Signals> {
    let signals = Signals { stop: Stop::default(), number: Arc::default() };
    let asked = Arc::new(AtomicBool::new(false));
    for number in ASK_TO_STOP {
        // In this order: the first signal finds `asked` false and sets it.
        flag::register_conditional_shutdown(number, 128 + number, Arc::clone(&asked))?;
        flag::register(number, Arc::clone(&asked))?;
        flag::register_usize(number, Arc::clone(&signals.number), number as usize)?;
    }
    let stop = signals.stop.clone();
    thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            thread::sleep(BETWEEN_LOOKS);
        }
        stop.ask();
        tell!("\nstopping; {kept}. Ctrl-C again ends at once");
    });
    Ok(signals)
}
