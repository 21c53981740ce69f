//! A picture as a set of features `f_1 … f_L`, one for each cell of a grid over it (Xu et al. 2015).
//!
//! `f_i = W c_i + b + √d (r_y + q_x)`: `c_i` are the outputs of a convolutional network in cell `i`, the cells row by row, and
//! `r_y` and `q_x` are learned vectors of its row and of its column, scaled like the embeddings of words. A cell has one
//! position of the network's output, or a square of several: few stages and large cells see less around themselves than many
//! stages and small cells do.

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::add_rows;
use serde::{Deserialize, Serialize};

use crate::ablation::Ablation;
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
        let grid @ [rows, columns] = self.grid();
        check_product("height", &[rows, columns, d_out])?;
        let sizes = PositionSizes { d_model: d_out, n_heads: 1, d_head: d_out };
        let places = |count, init: &Init| {
            Position::Learned(LearnedConfig { max_length: count, beyond: Beyond::Refuse, first: 0 }).init(sizes, init)
        };
        Ok(PictureFeatures {
            cnn: self.cnn.init(self.shape.channels, &init.enter("cnn"))?,
            projection: self.projection(d_out).init(&init.enter("projection"))?,
            rows: places(rows, &init.enter("rows"))?,
            columns: places(columns, &init.enter("columns"))?,
            shape: self.shape,
            grid,
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
    /// `r`, `[rows, d_out]`.
    pub rows: Positions,
    /// `q`, `[columns, d_out]`.
    pub columns: Positions,
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
        if pass.ablation().is_some_and(Ablation::without_positions) {
            return Ok(x);
        }
        Ok(add_rows(x, self.places()?)?)
    }

    /// Returns what is added to the features of each cell, `[cells, d_out]`.
    fn places(&self) -> Result<Tensor<2>, NnError> {
        let ([rows, columns], device) = (self.grid, self.projection.weight.val().device());
        let table = |layer: &Positions, count| layer.table(count, 0, &device);
        let (Some(rows), Some(columns)) = (table(&self.rows, rows)?, table(&self.columns, columns)?) else {
            return Err(NnError::input("places", "learned positions", "positions that are not added"));
        };
        let ([r, d_out], [c, _]) = (rows.dims(), columns.dims());
        let places = rows.unsqueeze_dim::<3>(1).expand([r, c, d_out]) + columns.unsqueeze_dim::<3>(0);
        Ok(places.reshape([r * c, d_out]) * (d_out as f32).sqrt())
    }
}
