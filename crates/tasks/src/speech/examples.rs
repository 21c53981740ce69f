//! Examples of `speech`: recordings with a label or a text, and what the network can answer.

use regard_data::{Recording, Vocabulary, excerpt};
use regard_nn::models::vectors::AnswerPer;
use regard_ops::CtcTargets;

use super::config::Aim;
use super::ear::Ear;
use crate::answers::{Answer, Answers, TargetKind};
use crate::error::TaskError;
use crate::folder::Files;

/// Index of the blank among the outputs of a network that transcribes; characters follow.
pub(super) const BLANK: u32 = 0;
/// File with the characters of transcripts.
const CHARACTERS: &str = "characters.json";

/// What the network answers, learnt from the training recordings.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Goal {
    /// One of these labels.
    Label(Answers),
    /// A text of these characters.
    Text(Vocabulary),
}

impl Goal {
    pub fn learn(aim: Aim, train: &[Recording]) -> Result<Self, TaskError> {
        let answers = || train.iter().map(|recording| recording.answer.as_str());
        match aim {
            Aim::Label => Ok(Self::Label(Answers::of_labels(answers())?)),
            Aim::Text => {
                let mut characters: Vec<char> = answers().flat_map(str::chars).collect();
                characters.sort_unstable();
                characters.dedup();
                Ok(Self::Text(Vocabulary::from_names(characters.iter().map(char::to_string).collect())?))
            }
        }
    }

    pub fn open(aim: Aim, files: &Files) -> Result<Self, TaskError> {
        Ok(match aim {
            Aim::Label => Self::Label(Answers::open(TargetKind::Label, files)?),
            Aim::Text => Self::Text(files.json(CHARACTERS)?),
        })
    }

    /// Returns the name and the content of the file with the labels or characters.
    pub fn file(&self) -> (String, Vec<u8>) {
        match self {
            Self::Label(answers) => answers.file(),
            Self::Text(characters) => {
                let content = serde_json::to_vec_pretty(characters).expect("plain values can be written as JSON");
                (CHARACTERS.to_string(), content)
            }
        }
    }

    /// Number of outputs of the network in each row.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Label(answers) => answers.outputs(),
            Self::Text(characters) => characters.len() + 1,
        }
    }

    /// Whether the network answers for a recording or for each vector of it.
    pub fn per(&self) -> AnswerPer {
        match self {
            Self::Label(_) => AnswerPer::Example,
            Self::Text(_) => AnswerPer::Vector,
        }
    }

    /// Makes the examples of a split.
    pub fn part(&self, recordings: Vec<Recording>, ear: &Ear, is_training: bool) -> Result<Part, TaskError> {
        let unseen = match self {
            Self::Label(answers) => answers.unseen(recordings.iter().map(|recording| recording.answer.as_str())),
            Self::Text(_) => Vec::new(),
        };
        let example = |recording: Recording| {
            let Recording { sound, answer, name, .. } = recording;
            check_heard(&name, sound.samples.len(), ear)?;
            let vectors = ear.vectors(ear.frames(sound.samples.len()));
            let said = match self {
                Self::Label(answers) => Said::Label(Answer::One(answers.index(&answer, &unseen))),
                Self::Text(characters) => {
                    let ids = |c: char| characters.get(c.encode_utf8(&mut [0; 4])).map(|id| id as u32 + 1);
                    let ids: Vec<u32> = answer.chars().filter_map(ids).collect();
                    let needed = CtcTargets::frames_needed(&ids);
                    if is_training && vectors < needed {
                        let expected = format!(
                            "{needed} or more vectors for the text {} (one for every {} ms: data.hop × data.stride)",
                            excerpt(&answer),
                            (1_000.0 * ear.seconds()).round()
                        );
                        return Err(TaskError::input(name, expected, format!("{vectors}: the sound is too short")));
                    }
                    Said::Text { text: answer, ids }
                }
            };
            Ok(Example { samples: sound.samples, vectors, said, name })
        };
        let examples = recordings.into_iter().map(example).collect::<Result<Vec<_>, TaskError>>()?;
        Ok(Part { examples, unseen })
    }
}

/// Refuses a recording that is shorter than a window.
pub(super) fn check_heard(name: &str, samples: usize, ear: &Ear) -> Result<(), TaskError> {
    if ear.frames(samples) > 0 {
        return Ok(());
    }
    Err(TaskError::input(name, "a sound as long as one window (data.window) or longer", format!("{samples} samples")))
}

/// What is said in a recording.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    Label(Answer),
    Text {
        text: String,
        /// Outputs of the characters; unknown ones are left out.
        ids: Vec<u32>,
    },
}

/// A recording with its answer.
#[derive(Debug, Clone)]
pub(super) struct Example {
    /// Samples at the rate of the model.
    pub samples: Vec<f32>,
    /// Number of vectors that the network sees, if nothing is changed at random.
    pub vectors: usize,
    pub said: Said,
    /// The name by which `predict` finds the recording.
    pub name: String,
}

/// The recordings of a split.
#[derive(Debug)]
pub struct Part {
    pub(super) examples: Vec<Example>,
    /// Labels that the training split does not have.
    pub(super) unseen: Vec<String>,
}
