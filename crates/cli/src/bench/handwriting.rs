//! The handwriting network of the speed table, the same as in `bench/peer_torch.py`.

use std::ops::Range;

use anyhow::Result;
use burn::tensor::{Device, Tensor, TensorData};
use regard_nn::models::handwriting::{Handwriting, HandwritingConfig, TextWindow};
use regard_nn::{Init, Pass};

use super::kernels::values;
use super::train::{Training, examples_of_parts};

/// The sizes of a synthesis network and its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WritingShape {
    batch: usize,
    seq: usize,
    characters: usize,
    /// Number of characters of each text.
    length: usize,
    d_hidden: usize,
    n_layers: usize,
    window_components: usize,
    components: usize,
}

impl WritingShape {
    /// The network that the speed table measures: the default one of `regard train write`.
    pub const REFERENCE: Self = Self {
        batch: 32,
        seq: 150,
        characters: 27,
        length: 8,
        d_hidden: 128,
        n_layers: 2,
        window_components: 5,
        components: 10,
    };

    /// Returns the shape with these sizes, in the order of a benchmark's name.
    pub fn new(sizes: [usize; 8]) -> Result<Self, String> {
        let [batch, seq, characters, length, d_hidden, n_layers, window_components, components] = sizes;
        let shape = Self { batch, seq, characters, length, d_hidden, n_layers, window_components, components };
        shape.config().validate().map_err(|error| error.to_string())?;
        Ok(shape)
    }

    /// Returns the sizes in the order of a benchmark's name.
    pub fn sizes(&self) -> [usize; 8] {
        let Self { batch, seq, characters, length, d_hidden, n_layers, window_components, components } = *self;
        [batch, seq, characters, length, d_hidden, n_layers, window_components, components]
    }

    fn config(&self) -> HandwritingConfig {
        let window = TextWindow { characters: self.characters, components: self.window_components, first_move: 0.05 };
        let Self { n_layers, d_hidden, components, .. } = *self;
        HandwritingConfig { window: Some(window), n_layers, d_hidden, components, dropout: 0.0 }
    }

    /// Estimates the numbers that a training step holds. A float, because huge sizes would overflow an integer.
    pub fn numbers(&self) -> f64 {
        let [batch, seq, characters, _, d_hidden, n_layers, _, components] = self.sizes().map(|size| size as f64);
        let weights =
            n_layers * 4.0 * d_hidden * (2.0 * d_hidden + characters + 3.0) + n_layers * d_hidden * 6.0 * components;
        4.0 * weights + batch * seq * (n_layers * (14.0 * d_hidden + 2.0 * characters) + 200.0 * components)
    }
}

/// Returns a call of one training step.
pub fn step(shape: WritingShape) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let device = Device::flex().autodiff();
    let WritingShape { batch, seq, characters, length, .. } = shape;
    let model = Handwriting::new(&shape.config(), &Init::new(0, &device))?;
    let mut points = values(batch * (seq + 1) * 3, 1);
    points.iter_mut().skip(2).step_by(3).for_each(|end| *end = if *end > 0.8 { 1.0 } else { 0.0 });
    let movements = |examples: &Range<usize>, offset: usize| {
        let rows = points.chunks_exact((seq + 1) * 3).map(|row| &row[offset * 3..(offset + seq) * 3]);
        let rows: Vec<f32> = rows.skip(examples.start).take(examples.len()).flatten().copied().collect();
        Tensor::<3>::from_data(TensorData::new(rows, [examples.len(), seq, 3]), &device)
    };
    let text = |row: usize| (0..length).map(|place| ((row * 7 + place * 5) % characters) as u32).collect();
    let part = |examples: Range<usize>| {
        let texts = model.texts(examples.clone().map(text).collect(), &device)?;
        Ok((movements(&examples, 0), movements(&examples, 1), texts))
    };
    let parts = examples_of_parts(batch, seq).into_iter().map(part).collect::<Result<Vec<_>>>()?;
    let mut training = Training::new(model, parts, move |model: &Handwriting, (read, wanted, texts)| {
        let lengths = vec![seq; read.dims()[0]];
        model.loss(read.clone(), wanted.clone(), Some(texts), &lengths, &Pass::inference())
    });
    Ok(Box::new(move || training.step().map(|_| ())))
}
