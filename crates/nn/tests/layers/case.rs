//! A case of a golden file, from which layers load their weights and with which they compare their gradients; and inputs that
//! several tests make.

use burn::module::Param;
use burn::tensor::{Gradients, Int, Tensor, TensorData};
use regard_nn::config::name_or_table;
use regard_nn::layers::linear::Linear;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::golden::Golden;
use crate::support::{close, gradient, training, transposed};

/// Allowed relative error, for sums of a few dozen `f32` products.
const TOLERANCE: f32 = 1e-5;

pub struct Case<'a> {
    golden: &'a Golden,
    pub name: String,
    pub options: Value,
}

/// Calls `check` with every case of a golden file.
pub fn each_case(file: &str, check: impl Fn(Case)) {
    let golden = Golden::open(file);
    for (name, options) in golden.cases() {
        check(Case { golden: &golden, name, options });
    }
}

/// Returns `Σ output ∘ weights`, whose gradient with respect to the output is `weights`.
pub fn weighted<const D: usize>(output: &Tensor<D>, weights: Tensor<D>) -> Tensor<1> {
    (output.clone() * weights.detach()).sum()
}

pub fn ids<const R: usize, const C: usize>(data: [[i32; C]; R]) -> Tensor<2, Int> {
    Tensor::from_ints(data, &training())
}

pub fn integers(data: &[usize], shape: [usize; 2]) -> Tensor<2, Int> {
    let data: Vec<i64> = data.iter().map(|&x| x as i64).collect();
    Tensor::from_data(TensorData::new(data, shape), &training())
}

/// Reads a kind that is given by its name or as a table.
pub fn parse<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    name_or_table(&mut serde_json::Deserializer::from_str(json)).map_err(|error: serde_json::Error| error.to_string())
}

impl Case<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    pub fn size(&self, option: &str) -> usize {
        self.options[option].as_u64().unwrap() as usize
    }

    pub fn lengths(&self) -> Vec<usize> {
        self.options["lengths"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as usize).collect()
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        self.golden.floats(&self.path(name))
    }

    pub fn integers(&self, name: &str) -> Vec<i64> {
        self.golden.integers::<2>(&self.path(name), &training()).into_data().iter().collect()
    }

    pub fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        self.golden.tensor(&self.path(name), &training())
    }

    pub fn leaf<const D: usize>(&self, name: &str) -> Tensor<D> {
        self.tensor(name).require_grad()
    }

    /// Sets the weight of a layer from PyTorch's `[d_out, d_in]`, and its bias.
    pub fn set(&self, linear: &mut Linear, weight: &str, bias: Option<&str>) {
        let value = self.tensor::<2>(weight).transpose();
        assert_eq!(value.dims(), linear.weight.dims(), "{}", self.path(weight));
        linear.weight = Param::from_tensor(value);
        assert_eq!(bias.is_some(), linear.bias.is_some(), "{}", self.path(weight));
        linear.bias = bias.map(|bias| Param::from_tensor(self.tensor(bias)));
    }

    pub fn expect(&self, name: &str, got: &[f32]) {
        close(&self.path(name), got, &self.floats(name), TOLERANCE);
    }

    /// Compares the gradients of the parameters that [`set`](Self::set) has set.
    pub fn expect_linear(&self, linear: &Linear, weight: &str, bias: Option<&str>, gradients: &Gradients) {
        let [d_in, d_out] = linear.weight.dims();
        let name = format!("grad_{weight}");
        let want = transposed(&self.floats(&name), d_out, d_in);
        close(&self.path(&name), &gradient(&linear.weight.val(), gradients), &want, TOLERANCE);
        if let (Some(bias), Some(param)) = (bias, &linear.bias) {
            self.expect(&format!("grad_{bias}"), &gradient(&param.val(), gradients));
        }
    }
}
