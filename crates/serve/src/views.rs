//! The last attention maps of a model, so that a client that asks for a large map part by part does not make the model look again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use regard_tasks::task::{Looked, Prediction};

use crate::queue::Look;

/// Largest number of weights that are kept, of all maps together: 80 MB.
const MOST_WEIGHTS: usize = 20_000_000;
/// Largest number of answers that are kept.
const MOST_VIEWS: usize = 8;

/// An answer with the request that it belongs to.
type View = (Look, Arc<Looked>, Option<Prediction>);

/// The last answers, the newest last.
#[derive(Default)]
pub struct Views(Mutex<VecDeque<View>>);

impl Views {
    /// Returns the answer to a request if it is still kept.
    pub fn find(&self, look: &Look) -> Option<(Arc<Looked>, Option<Prediction>)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, looked, predicted) = all.iter().find(|(known, ..)| known == look)?;
        Some((Arc::clone(looked), predicted.clone()))
    }

    /// Keeps an answer in place of the oldest ones.
    pub fn keep(&self, look: &Look, looked: &Arc<Looked>, predicted: Option<&Prediction>) {
        let weights = |looked: &Looked| looked.view().map_or(0, |view| view.weights());
        if weights(looked) > MOST_WEIGHTS {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back((look.clone(), Arc::clone(looked), predicted.cloned()));
        while all.len() > MOST_VIEWS || all.iter().map(|(_, looked, _)| weights(looked)).sum::<usize>() > MOST_WEIGHTS {
            all.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use regard_inspect::{AttentionView, HeadMap, MapGroup};
    use regard_tasks::input::Given;

    use super::*;

    fn look(input: &str) -> Look {
        Look { given: Given::from(input), wanted: Vec::new(), changes: None, is_summary: false }
    }

    fn looked(tokens: usize) -> Arc<Looked> {
        let names: Vec<String> = (0..tokens).map(|token| token.to_string()).collect();
        let group = MapGroup::new("layer", names.clone(), names).head(HeadMap::default());
        Arc::new(AttentionView::new("x").group(group).into())
    }

    #[test]
    fn the_last_answers_are_kept_within_a_bound() {
        let views = Views::default();
        for at in 0..20 {
            views.keep(&look(&at.to_string()), &looked(at), None);
        }
        assert!(views.find(&look("11")).is_none() && views.find(&look("12")).is_some());
        let (found, _) = views.find(&look("19")).unwrap();
        assert_eq!(found.view().unwrap().groups[0].queries.len(), 19);
        assert!(views.find(&Look { is_summary: true, ..look("19") }).is_none());
        // A large one pushes the others out, and too large a one is not kept.
        views.keep(&look("large"), &looked(4_470), None);
        assert!(views.find(&look("large")).is_some() && views.find(&look("12")).is_none());
        views.keep(&look("larger"), &looked(4_500), None);
        assert!(views.find(&look("larger")).is_none() && views.find(&look("large")).is_some());
    }
}
