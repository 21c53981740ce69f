//! Ctrl-C and other signals: they ask a run to stop, and the command ends with the exit code that shells use for the signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Error, Result};
use regard_system::Ranks;
use regard_tasks::train::Stop;
#[cfg(unix)]
use signal_hook::consts::SIGHUP;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::print::tell;

/// The signals that ask a run to stop: Ctrl-C, `kill` and the closing of the terminal.
#[cfg(unix)]
const ASK_TO_STOP: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
#[cfg(not(unix))]
const ASK_TO_STOP: [i32; 2] = [SIGINT, SIGTERM];

/// Time between two checks for a signal.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The command was stopped by a signal and has already said so. The number is the exit code: 130 after Ctrl-C, 143 after
/// SIGTERM, 129 after the terminal was closed.
#[derive(Debug, thiserror::Error)]
#[error("stopped by a signal")]
pub struct Stopped(pub u8);

/// The signals received so far.
pub struct Signals {
    /// Asked to stop when the first signal arrives.
    pub stop: Stop,
    /// Number of the last signal; 0 if there was none.
    number: Arc<AtomicUsize>,
}

impl Signals {
    /// Returns [`Stopped`]: a run has ended early because a signal has arrived here or on another rank.
    pub fn stopped(&self) -> Error {
        // Another rank has got the signal.
        const ELSEWHERE: i32 = 128 + SIGINT;
        self.check().err().unwrap_or_else(|| Stopped(ELSEWHERE as u8).into())
    }

    /// Returns [`Stopped`] with the signal's exit code if a signal has arrived.
    pub fn check(&self) -> Result<()> {
        match self.number.load(Ordering::Relaxed) {
            0 => Ok(()),
            number => Err(Stopped(128 + number as u8).into()),
        }
    }
}

/// Listens for signals. The first asks a run to stop and lets rank 0 print `kept`, what is saved; the second ends the program at once.
pub fn stop_on_signal(kept: &'static str, ranks: &Ranks) -> Result<Signals> {
    let signals = Signals { stop: Stop::default(), number: Arc::default() };
    let asked = Arc::new(AtomicBool::new(false));
    for number in ASK_TO_STOP {
        // The order matters: the first signal must find `asked` still false.
        flag::register_conditional_shutdown(number, 128 + number, Arc::clone(&asked))?;
        flag::register(number, Arc::clone(&asked))?;
        flag::register_usize(number, Arc::clone(&signals.number), number as usize)?;
    }
    let (stop, speaks) = (signals.stop.clone(), ranks.is_first());
    thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            thread::sleep(BETWEEN_LOOKS);
        }
        stop.ask();
        if speaks {
            tell!("\nstopping; {kept}. Press Ctrl-C again to end at once");
        }
    });
    Ok(signals)
}
