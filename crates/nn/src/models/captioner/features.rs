//! A picture as a set of features `f_1 … f_L`, one for each cell of a grid over it (Xu et al. 2015).
//!
//! `f_i = W c_i + b + p_i`: `c_i` are the outputs of a convolutional network in cell `i`, the cells row by row, and `p_i` is a learned
//! vector that tells where the cell is. A cell has one position of the network's output, or a square of several: few stages and
//! large cells see less around themselves than many stages and small cells do.

use burn::module::Module;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::config::check_product;
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::convolution::{Convolution, ConvolutionConfig};
use crate::layers::position::learned::{Beyond, LearnedConfig};
use crate::layers::position::{Position, PositionSizes, Positions};
use crate::models::image::ImageShape;
use crate::models::image::cnn::{Cnn, CnnConfig};
use crate::pass::Pass;

/// Configuration of [`PictureFeatures`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PictureFeaturesConfig {
    /// Size of a picture.
    pub shape: ImageShape,
    /// Convolutional network over the picture.
    pub cnn: CnnConfig,
    /// Height and width of a cell, in positions of the network's output. Rows and columns that do not fill a cell are left out.
    pub cell: usize,
}

impl PictureFeaturesConfig {
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.shape.validate()?;
        self.cnn.validate()?;
        let [height, width] = self.cnn.grid([self.shape.height, self.shape.width]);
        let most = height.min(width);
        match (1..=most).contains(&self.cell) {
            true => Ok(()),
            false => Err(ConfigError::new("cell", self.cell, format!("1 to {most}, the output of the network"))),
        }
    }

    /// Returns the numbers of rows and columns of the grid.
    pub fn grid(&self) -> [usize; 2] {
        self.cnn.grid([self.shape.height, self.shape.width]).map(|positions| positions / self.cell.max(1))
    }

    /// Creates the features, `d_out` for each cell.
    pub fn init(&self, d_out: usize, init: &Init) -> Result<PictureFeatures, ConfigError> {
        self.validate()?;
        let cells = self.grid().iter().product();
        check_product("height", &[cells, d_out])?;
        let place = Position::Learned(LearnedConfig { max_length: cells, beyond: Beyond::Refuse });
        let sizes = PositionSizes { d_model: d_out, n_heads: 1, d_head: d_out };
        Ok(PictureFeatures {
            cnn: self.cnn.init(self.shape.channels, &init.enter("cnn"))?,
            projection: self.projection(d_out).init(&init.enter("projection"))?,
            place: place.init(sizes, &init.enter("place"))?,
            shape: self.shape,
            grid: self.grid(),
        })
    }

    fn projection(&self, d_out: usize) -> ConvolutionConfig {
        let config = ConvolutionConfig::new(self.cnn.d_out(), d_out, self.cell).with_stride(self.cell);
        ConvolutionConfig { padding: Some(0), ..config }
    }
}

/// Features of the cells of a picture; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct PictureFeatures {
    /// Convolutional network.
    pub cnn: Cnn,
    /// `W` and `b`, from the channels of the network in a cell to its features.
    pub projection: Convolution,
    /// `p`, `[cells, d_out]`.
    pub place: Positions,
    #[module(skip)]
    shape: ImageShape,
    #[module(skip)]
    grid: [usize; 2],
}

impl PictureFeatures {
    /// Returns the numbers of rows and columns of the grid.
    pub fn grid(&self) -> [usize; 2] {
        self.grid
    }

    /// Computes the features of each picture.
    ///
    /// # Shapes
    /// `pictures` `[batch, channels, height, width]` → `[batch, cells, d_out]`, the cells row by row.
    pub fn forward(&self, pictures: Tensor<4>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        self.shape.check(&pictures)?;
        let cells = self.projection.forward(self.cnn.features(pictures, pass)?)?;
        let [batch, d_out, rows, columns] = cells.dims();
        let x = cells.reshape([batch, d_out, rows * columns]).swap_dims(1, 2);
        Ok(self.place.enter(x, &[(0, rows * columns)], pass)?.0)
    }
}
