//! The scores of a captioner, with pictures and captions for the report.

use regard_data::{END, START};
use regard_figures::{Content, Figure, Pictures, Table};
use regard_nn::{AttentionMap, Capture, Pass};

use super::examples::Described;
use super::gaze::{Shares, is_over_picture};
use super::{Captioner, Captions, sentence_loss};
use crate::error::TaskError;
use crate::metrics::bleu::bleu;
use crate::metrics::text::exact_match;
use crate::pictures::{pictures_tensor, tile};
use crate::rows::{device_of, padded};
use crate::task::{Better, Evaluation};

/// Numbers of pictures with right and with wrong captions in the report.
const SHOWN: [usize; 2] = [3, 6];
/// Width of a picture in the report, wide enough for its caption.
const SIDE: u32 = 260;

impl Captions {
    /// Scores captions of pictures, which are found by search.
    pub(super) fn scores(
        &self,
        pictures: &[&Described],
        model: &Captioner,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let (device, together) = (device_of(model), self.together());
        let grid = model.picture().grid();
        let (mut nats, mut targets, mut shares) = (0.0, 0usize, Shares::default());
        let mut found: Vec<String> = Vec::with_capacity(pictures.len());
        let mut words = [0usize; 2];
        for (done, batch) in pictures.chunks(together).enumerate() {
            pass.report(done, pictures.len().div_ceil(together))?;
            let seen = model.see(pictures_tensor(batch.iter().map(|picture| &*picture.image), &device), pass)?;
            let (mut rows, mut sentences) = (Vec::new(), Vec::new());
            for (row, reference) in
                batch.iter().enumerate().flat_map(|(row, p)| p.references.iter().map(move |r| (row, r)))
            {
                let tokens = self.tokenizer.ids(reference);
                if self.fits(&tokens) {
                    rows.push(row);
                    sentences.push(tokens);
                }
            }
            if !rows.is_empty() {
                let sentences: Vec<&[u32]> = sentences.iter().map(Vec::as_slice).collect();
                let (loss, count) = sentence_loss(&seen.select(&rows)?, &sentences, 0.0, &device, pass)?;
                nats += f64::from(loss.loss.into_scalar::<f32>()) * count as f64;
                targets += count;
            }
            let hypotheses = seen.clone().search(self.config.data.max_length, &self.config.more.decode, pass)?;
            let best: Vec<Vec<u32>> =
                hypotheses.iter().map(|found| found.first().map_or(Vec::new(), |best| best.tokens.clone())).collect();
            for (picture, best) in batch.iter().zip(&best) {
                let right = self.right_words(picture, best);
                words = [words[0] + right[0], words[1] + right[1]];
            }
            if batch.iter().any(|picture| !picture.shapes.is_empty()) {
                let capture = Capture::default();
                let read: Vec<Vec<u32>> = best.iter().map(|tokens| [&[START], tokens.as_slice()].concat()).collect();
                seen.read_again(padded(&read, &device).0, &pass.with_capture(&capture))?;
                let maps = capture.into_maps();
                for (row, (picture, best)) in batch.iter().zip(&best).enumerate() {
                    let own = maps.iter().filter(|map| map.sequence == row && is_over_picture(map.site.kind));
                    shares.add(picture, best, &own.collect::<Vec<&AttentionMap>>(), grid, self.focus());
                }
            }
            found.extend(best.iter().map(|tokens| self.tokenizer.decode(tokens)));
        }
        let references: Vec<Vec<String>> = pictures.iter().map(|picture| picture.references.clone()).collect();
        let mut scores = Vec::new();
        if targets > 0 {
            scores.push(("loss", nats / targets as f64));
        }
        if !pictures.is_empty() {
            scores.extend([
                ("bleu", bleu(&found, &references).score),
                ("exact", exact_match(&found, &references)),
                ("accuracy", words[0] as f64 / words[1].max(1) as f64),
            ]);
        }
        scores.extend(shares.mean().map(|share| ("attention_share", share)));
        let contents = shown(pictures, &found)?;
        let evaluation = Evaluation::new(scores, "bleu", Better::Higher);
        Ok(Evaluation { examples: pictures.len(), contents, ..evaluation })
    }

    /// Returns the number of tokens, with `</s>`, that stand at their place in the nearest reference, and the number of all places.
    fn right_words(&self, picture: &Described, best: &[u32]) -> [usize; 2] {
        let best = [best, &[END]].concat();
        let counts = picture.references.iter().map(|reference| {
            let wanted = [self.tokenizer.ids(reference).as_slice(), &[END]].concat();
            let right = best.iter().zip(&wanted).filter(|(got, want)| got == want).count();
            [right, best.len().max(wanted.len())]
        });
        counts.max_by(|a, b| (a[0] * b[1]).cmp(&(b[0] * a[1]))).unwrap_or_default()
    }
}

/// Returns some pictures with right and some with wrong captions.
fn shown(pictures: &[&Described], found: &[String]) -> Result<Vec<Content>, TaskError> {
    let is_right = |at: &usize| pictures[*at].references.iter().any(|reference| reference.trim() == found[*at].trim());
    let (right, wrong): (Vec<usize>, Vec<usize>) = (0..pictures.len()).partition(is_right);
    let mut figure = Figure::new("Pictures and the captions of the model");
    for (title, some, most) in [("right", &right, SHOWN[0]), ("wrong", &wrong, SHOWN[1])] {
        if some.is_empty() {
            continue;
        }
        let tiles = some.iter().take(most).map(|&at| Ok(tile(&pictures[at].image)?.caption(&found[at])));
        let tiles = tiles.collect::<Result<Vec<_>, TaskError>>()?;
        let title = format!("{title}: {} of {}", some.len(), pictures.len());
        figure.push(title, Pictures::new(tiles)?.columns(3).side(SIDE));
    }
    let mut contents = Vec::new();
    if !figure.panels.is_empty() {
        contents.push(Content::Figure(figure));
    }
    if !wrong.is_empty() {
        let mut table = Table::new(["picture", "expected", "model"]);
        for &at in wrong.iter().take(SHOWN[1]) {
            let expected = pictures[at].references.first().map_or("", String::as_str);
            table.push([pictures[at].name.as_str(), expected, &found[at]]);
        }
        contents.push(Content::Table(table));
    }
    Ok(contents)
}
