//! Maps parameters of modules to PyTorch's names, to load their values or to compare their gradients.

use std::ops::Range;

use burn::module::Param;
use burn::tensor::{Gradients, Tensor, TensorData};
use regard_nn::layers::attention::cross_attention::CrossAttention;
use regard_nn::layers::attention::self_attention::SelfAttention;
use regard_nn::layers::block::decoder::DecoderBlock;
use regard_nn::layers::block::encoder::EncoderBlock;
use regard_nn::layers::linear::Linear;
use regard_nn::layers::norm::Norm;
use regard_nn::layers::pooling::Pooling;
use regard_nn::layers::recurrent::Recurrent;
use regard_nn::models::body::Body;

use crate::golden::Golden;
use crate::support::{FLOOR, close_above, gradient, training, transposed};

/// What to do with each pair of a parameter and its name.
pub enum Action<'a> {
    /// Load the parameter from the golden file.
    Load,
    /// Compare its gradient, with this tolerance.
    Compare(&'a Gradients, f32),
}

pub struct Link<'a> {
    pub golden: &'a Golden,
    pub case: &'a str,
    pub action: Action<'a>,
}

impl Link<'_> {
    /// Links a parameter to PyTorch's tensor, or to a range of its first dimension.
    pub fn plain<const D: usize>(&self, param: &mut Param<Tensor<D>>, name: &str, rows: Option<Range<usize>>) {
        match &self.action {
            Action::Load => set(param, self.read("weight", name, rows).0),
            Action::Compare(gradients, tolerance) => {
                let want = self.read("grad", name, rows).0;
                compare(name, &gradient(&param.val(), gradients), &want, *tolerance);
            }
        }
    }

    /// Links a matrix to its transpose in PyTorch, `[d_out, d_in]`, or to some of the transpose's rows. The inputs of a
    /// convolution are one dimension of the matrix.
    pub fn transposed(&self, param: &mut Param<Tensor<2>>, name: &str, rows: Option<Range<usize>>) {
        let read = |kind| {
            let (data, shape) = self.read(kind, name, rows.clone());
            transposed(&data, shape[0], data.len() / shape[0])
        };
        match &self.action {
            Action::Load => set(param, read("weight")),
            Action::Compare(gradients, tolerance) => {
                compare(name, &gradient(&param.val(), gradients), &read("grad"), *tolerance);
            }
        }
    }

    /// Reads PyTorch's tensor, or a range of its first dimension, and its shape.
    fn read(&self, kind: &str, name: &str, rows: Option<Range<usize>>) -> (Vec<f32>, Vec<usize>) {
        let name = format!("{}/{kind}/{name}", self.case);
        let (data, mut shape) = (self.golden.floats(&name), self.golden.shape(&name));
        let rows = rows.unwrap_or(0..shape[0]);
        let width = data.len() / shape[0];
        shape[0] = rows.len();
        (data[rows.start * width..rows.end * width].to_vec(), shape)
    }

    pub fn linear(&self, layer: &mut Linear, name: &str) {
        self.transposed(&mut layer.weight, &format!("{name}.weight"), None);
        self.plain(layer.bias.as_mut().unwrap(), &format!("{name}.bias"), None);
    }

    pub fn norm(&self, layer: &mut Norm, name: &str) {
        self.plain(&mut layer.weight, &format!("{name}.weight"), None);
        self.plain(layer.bias.as_mut().unwrap(), &format!("{name}.bias"), None);
    }

    /// Links an `nn.RNN`, `nn.LSTM` or `nn.GRU`, of one or both directions; the two biases of RNN and LSTM are one here.
    pub fn recurrent(&self, layer: &mut Recurrent, name: &str) {
        for (n, layer) in layer.layers.iter_mut().enumerate() {
            for (weights, end) in [(&mut layer.forward, ""), (&mut layer.backward, "_reverse")] {
                let Some(weights) = weights else { continue };
                let name = |part: &str| format!("{name}.{part}_l{n}{end}");
                self.transposed(&mut weights.w_ih, &name("weight_ih"), None);
                self.transposed(&mut weights.w_hh, &name("weight_hh"), None);
                self.plain(&mut weights.bias, &name("bias_ih"), None);
                if let Some(bias) = &mut weights.bias_hh {
                    self.plain(bias, &name("bias_hh"), None);
                }
            }
        }
    }

    /// Links the score of attention pooling.
    pub fn pooling(&self, pooling: &mut Pooling, name: &str) {
        let score = pooling.attention.as_mut().unwrap();
        self.linear(&mut score.hidden, &format!("{name}hidden"));
        self.transposed(&mut score.query.weight, &format!("{name}query.weight"), None);
    }

    /// Links the body of a Transformer with pre-norm blocks.
    pub fn body(&self, body: &mut Body) {
        let Body::Transformer(body) = body else { panic!("expected a Transformer") };
        self.linear(&mut body.input, "input");
        self.norm(&mut body.norm, "body_norm");
        for (n, block) in body.stack.layers.iter_mut().enumerate() {
            self.encoder_block(block, &format!("blocks.{n}."));
        }
        self.norm(body.stack.norm.as_mut().unwrap(), "norm");
    }

    /// Links an `nn.MultiheadAttention` over its own input; `name` ends with a dot or is empty.
    pub fn self_attention(&self, layer: &mut SelfAttention, name: &str) {
        self.transposed(&mut layer.qkv.weight, &format!("{name}in_proj_weight"), None);
        self.plain(layer.qkv.bias.as_mut().unwrap(), &format!("{name}in_proj_bias"), None);
        self.linear(&mut layer.output, &format!("{name}out_proj"));
    }

    /// Links an `nn.MultiheadAttention` over a source of the same width.
    pub fn cross_attention(&self, layer: &mut CrossAttention, name: &str) {
        let d = layer.query.weight.dims()[1];
        let (weight, bias) = (format!("{name}in_proj_weight"), format!("{name}in_proj_bias"));
        self.transposed(&mut layer.query.weight, &weight, Some(0..d));
        self.transposed(&mut layer.key_value.weight, &weight, Some(d..3 * d));
        self.plain(layer.query.bias.as_mut().unwrap(), &bias, Some(0..d));
        self.plain(layer.key_value.bias.as_mut().unwrap(), &bias, Some(d..3 * d));
        self.linear(&mut layer.output, &format!("{name}out_proj"));
    }

    pub fn encoder_block(&self, block: &mut EncoderBlock, name: &str) {
        self.self_attention(&mut block.attention, &format!("{name}self_attn."));
        self.norm(&mut block.attention_residual.norm, &format!("{name}norm1"));
        self.linear(&mut block.feed_forward.up, &format!("{name}linear1"));
        self.linear(&mut block.feed_forward.down, &format!("{name}linear2"));
        self.norm(&mut block.feed_forward_residual.norm, &format!("{name}norm2"));
    }

    pub fn decoder_block(&self, block: &mut DecoderBlock, name: &str) {
        self.self_attention(&mut block.attention, &format!("{name}self_attn."));
        self.norm(&mut block.attention_residual.norm, &format!("{name}norm1"));
        self.cross_attention(&mut block.cross_attention, &format!("{name}multihead_attn."));
        self.norm(&mut block.cross_residual.norm, &format!("{name}norm2"));
        self.linear(&mut block.feed_forward.up, &format!("{name}linear1"));
        self.linear(&mut block.feed_forward.down, &format!("{name}linear2"));
        self.norm(&mut block.feed_forward_residual.norm, &format!("{name}norm3"));
    }
}

fn set<const D: usize>(param: &mut Param<Tensor<D>>, data: Vec<f32>) {
    *param = Param::from_tensor(Tensor::from_data(TensorData::new(data, param.dims()), &training()));
}

/// Compares gradients. The loss is a mean over dozens of targets, which makes the terms of its gradients as much smaller than 1.
#[track_caller]
pub fn compare(name: &str, got: &[f32], want: &[f32], tolerance: f32) {
    close_above(FLOOR / 32.0, name, got, want, tolerance);
}
