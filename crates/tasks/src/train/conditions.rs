//! Conditions under which a run is bit-identical when it is resumed.

use regard_kernels::Isa;
use regard_system::Ranks;
use serde::{Deserialize, Serialize};

use super::share::MOST_PARTS;

/// What the bits of a step depend on, apart from the configuration and the seed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Version of Regard.
    pub regard: String,
    /// Instruction set of the kernels.
    pub instructions: String,
    /// Number of threads of each process.
    pub threads: usize,
    /// Number of processes that train together.
    #[serde(default = "alone")]
    pub ranks: usize,
    /// Fingerprint of the data.
    pub data: String,
}

/// The number of processes of a run that says nothing about it.
fn alone() -> usize {
    1
}

impl Conditions {
    /// Returns the conditions of these processes, with the fingerprint of the data.
    pub fn of(data: &str, ranks: &Ranks) -> Self {
        Self {
            regard: env!("CARGO_PKG_VERSION").to_string(),
            instructions: Isa::current().name().to_string(),
            threads: rayon::current_num_threads(),
            ranks: ranks.size(),
            data: data.to_string(),
        }
    }

    /// Describes each condition that differs in `now`, and how to restore it.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.regard != now.regard {
            found.push(format!("it was begun by Regard {}, and this is Regard {}", self.regard, now.regard));
        }
        if self.instructions != now.instructions {
            let (before, now) = (&self.instructions, &now.instructions);
            found.push(format!("it was begun with {before} instructions, now they are {now} (set REGARD_ISA)"));
        }
        if !self.has_the_parts_of(now) {
            let (before, threads) = (self.threads, now.threads);
            found.push(match (self.ranks, now.ranks) {
                (1, 1) => {
                    format!("it was begun on {before} threads, now there are {threads} (use --threads {before})")
                }
                (ranks, ranks_now) => format!(
                    "it was begun on {ranks} × {before} threads (ranks × threads of each), now there are \
                     {ranks_now} × {threads} (use mpirun -n {ranks} and --threads {before})"
                ),
            });
        }
        if self.data != now.data {
            found.push("the built-in data have changed in this version".to_string());
        }
        found
    }

    /// Returns whether batches are cut into the same parts. It does not matter how processes and threads divide them, as long as
    /// every thread gets one.
    fn has_the_parts_of(&self, other: &Self) -> bool {
        let both = [(self.ranks, self.threads), (other.ranks, other.threads)];
        let is_same = both[0] == both[1];
        let all_get_one = both.iter().all(|(_, threads)| *threads <= MOST_PARTS);
        is_same || (all_get_one && self.ranks * self.threads == other.ranks * other.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_conditions_are_described() {
        let before = Conditions::of("data", &Ranks::default());
        assert!(before.differences(&before.clone()).is_empty());
        let now = Conditions {
            regard: "0.0.0".into(),
            instructions: "plain".into(),
            threads: before.threads + 1,
            data: "other".into(),
            ..before
        };
        let said = before.differences(&now);
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(said[2].contains(&format!("--threads {}", before.threads)));
    }

    #[test]
    fn ranks_and_threads_count_together() {
        let on = |ranks, threads| Conditions { ranks, threads, ..Conditions::default() };
        for (before, now) in [(on(1, 4), on(2, 2)), (on(4, 1), on(1, 4)), (on(2, 8), on(4, 4)), (on(1, 9), on(1, 9))] {
            assert!(before.differences(&now).is_empty(), "{before:?} {now:?}");
        }
        for (before, now) in [(on(1, 2), on(2, 2)), (on(1, 16), on(2, 8)), (on(3, 1), on(2, 1))] {
            let said = before.differences(&now);
            let advice = format!("mpirun -n {} and --threads {}", before.ranks, before.threads);
            assert!(said.len() == 1 && said[0].contains(&advice), "{said:?}");
        }
    }
}
