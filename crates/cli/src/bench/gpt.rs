//! The GPT of the speed table: pre-norm blocks of causal attention and a GELU feed-forward, as `bench/peer_torch.py`.

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_ops::{
    Activation, AttentionOptions, CrossEntropyOptions, Mask, OpError, attention_packed, embedding, layer_norm, linear,
    linear_cross_entropy,
};

use super::kernels::values;

/// The sizes of a GPT and its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GptShape {
    pub batch: usize,
    pub seq: usize,
    pub d_model: usize,
    pub n_heads: usize,
    pub n_layers: usize,
    pub d_ff: usize,
    pub vocab: usize,
}

impl GptShape {
    /// The model that the speed table measures.
    pub const REFERENCE: Self =
        Self { batch: 16, seq: 256, d_model: 256, n_heads: 4, n_layers: 4, d_ff: 1024, vocab: 8000 };
    /// The tiny one, where only overheads count.
    pub const TINY: Self = Self { batch: 2, seq: 16, d_model: 64, n_heads: 4, n_layers: 4, d_ff: 128, vocab: 256 };

    /// Sizes in the order of a work's name.
    pub fn new([batch, seq, d_model, n_heads, n_layers, d_ff, vocab]: [usize; 7]) -> Result<Self, String> {
        if !d_model.is_multiple_of(n_heads) {
            return Err(format!("d_model {d_model} is no multiple of n_heads {n_heads}"));
        }
        Ok(Self { batch, seq, d_model, n_heads, n_layers, d_ff, vocab })
    }

    pub fn sizes(&self) -> [usize; 7] {
        [self.batch, self.seq, self.d_model, self.n_heads, self.n_layers, self.d_ff, self.vocab]
    }

    /// Floating-point operations of the matrix products of a training step: three times those of the forward pass.
    pub fn training_flops(&self) -> f64 {
        let Self { batch, seq, d_model, n_layers, d_ff, vocab, .. } = *self;
        let weights = n_layers * (4 * d_model * d_model + 2 * d_model * d_ff) + d_model * vocab;
        // Causal attention: half of two products of seq × seq × d_model a layer.
        6.0 * (batch * seq) as f64 * (weights as f64 + (n_layers * seq * d_model) as f64)
    }
}

/// `y = x W + b`.
#[derive(Module, Debug)]
struct Dense {
    /// `[d_in, d_out]`
    weight: Param<Tensor<2>>,
    /// `[d_out]`
    bias: Param<Tensor<1>>,
}

#[derive(Module, Debug)]
struct Norm {
    /// `[d_model]`
    gamma: Param<Tensor<1>>,
    /// `[d_model]`
    beta: Param<Tensor<1>>,
}

#[derive(Module, Debug)]
struct Block {
    norm1: Norm,
    qkv: Dense,
    out: Dense,
    norm2: Norm,
    up: Dense,
    down: Dense,
}

/// The whole model.
#[derive(Module, Debug)]
pub struct Gpt {
    /// `[vocab, d_model]`
    token: Param<Tensor<2>>,
    /// `[seq, d_model]`
    position: Param<Tensor<2>>,
    blocks: Vec<Block>,
    norm: Norm,
    head: Dense,
    n_heads: usize,
}

impl Gpt {
    /// A model with weights from `seed`.
    pub fn new(shape: &GptShape, seed: u64, device: &Device) -> Self {
        let GptShape { seq, d_model, n_heads, n_layers, d_ff, vocab, .. } = *shape;
        let mut init = Init { seed, device: device.clone() };
        Self {
            token: init.matrix([vocab, d_model], 1.0),
            position: init.matrix([seq, d_model], 1.0),
            blocks: (0..n_layers)
                .map(|_| Block {
                    norm1: init.norm(d_model),
                    qkv: init.dense(d_model, 3 * d_model),
                    out: init.dense(d_model, d_model),
                    norm2: init.norm(d_model),
                    up: init.dense(d_model, d_ff),
                    down: init.dense(d_ff, d_model),
                })
                .collect(),
            norm: init.norm(d_model),
            head: init.dense(d_model, vocab),
            n_heads,
        }
    }

    /// The mean cross-entropy of the next token.
    ///
    /// # Shapes
    /// `ids` and `targets` `[batch, seq]` → `[1]`.
    pub fn loss(&self, ids: Tensor<2, Int>, targets: Tensor<2, Int>) -> Result<Tensor<1>, OpError> {
        let [batch, seq] = ids.dims();
        let mut x = embedding(self.token.val(), ids)? + self.position.val().unsqueeze();
        for block in &self.blocks {
            x = block.forward(x, self.n_heads)?;
        }
        let x = self.norm.forward(x)?;
        let d_model = x.dims()[2];
        let (weight, bias) = (self.head.weight.val(), Some(self.head.bias.val()));
        let options = CrossEntropyOptions::default();
        linear_cross_entropy(x.reshape([batch * seq, d_model]), weight, bias, targets.reshape([batch * seq]), options)
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, n_heads: usize) -> Result<Tensor<3>, OpError> {
        let options = AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() };
        let qkv = self.qkv.forward(self.norm1.forward(x.clone())?, None)?;
        let x = x + self.out.forward(attention_packed(qkv, n_heads, n_heads, &options)?, None)?;
        let hidden = self.up.forward(self.norm2.forward(x.clone())?, Some(Activation::Gelu))?;
        Ok(x + self.down.forward(hidden, None)?)
    }
}

impl Dense {
    fn forward(&self, x: Tensor<3>, activation: Option<Activation>) -> Result<Tensor<3>, OpError> {
        linear(x, self.weight.val(), Some(self.bias.val()), activation)
    }
}

impl Norm {
    fn forward(&self, x: Tensor<3>) -> Result<Tensor<3>, OpError> {
        layer_norm(x, self.gamma.val(), Some(self.beta.val()), 1e-5)
    }
}

/// Weights from a seed of their own, so that a run can be repeated.
struct Init {
    seed: u64,
    device: Device,
}

impl Init {
    fn matrix(&mut self, shape: [usize; 2], scale: f32) -> Param<Tensor<2>> {
        self.seed += 1;
        let data = values(shape[0] * shape[1], self.seed).iter().map(|x| x * scale).collect::<Vec<_>>();
        Param::from_tensor(Tensor::from_data(TensorData::new(data, shape), &self.device))
    }

    fn dense(&mut self, d_in: usize, d_out: usize) -> Dense {
        let weight = self.matrix([d_in, d_out], 1.0 / (d_in as f32).sqrt());
        Dense { weight, bias: Param::from_tensor(Tensor::zeros([d_out], &self.device)) }
    }

    fn norm(&mut self, d_model: usize) -> Norm {
        Norm {
            gamma: Param::from_tensor(Tensor::ones([d_model], &self.device)),
            beta: Param::from_tensor(Tensor::zeros([d_model], &self.device)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::SafeTensors;

    /// Every weight, the loss and the gradient of every weight of a small GPT are PyTorch's.
    #[test]
    fn loss_and_all_gradients_are_pytorchs() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/tiny_gpt.safetensors");
        let bytes = std::fs::read(path).unwrap();
        let golden = Golden { file: SafeTensors::deserialize(&bytes).unwrap(), device: Device::flex().autodiff() };
        let norm = |name: &str| Norm {
            gamma: Param::from_tensor(golden.vector(&format!("model/weight/{name}.weight"))),
            beta: Param::from_tensor(golden.vector(&format!("model/weight/{name}.bias"))),
        };
        let dense = |name: &str| Dense {
            weight: Param::from_tensor(golden.transposed(&format!("model/weight/{name}.weight"))),
            bias: Param::from_tensor(golden.vector(&format!("model/weight/{name}.bias"))),
        };
        let block = |i: usize| Block {
            norm1: norm(&format!("blocks.{i}.norm1")),
            qkv: dense(&format!("blocks.{i}.qkv")),
            out: dense(&format!("blocks.{i}.out")),
            norm2: norm(&format!("blocks.{i}.norm2")),
            up: dense(&format!("blocks.{i}.up")),
            down: dense(&format!("blocks.{i}.down")),
        };
        let gpt = Gpt {
            token: Param::from_tensor(golden.matrix("model/weight/token.weight")),
            position: Param::from_tensor(golden.matrix("model/weight/position.weight")),
            blocks: (0..2).map(block).collect(),
            norm: norm("norm"),
            head: dense("head"),
            n_heads: 2,
        };
        let loss = gpt.loss(golden.integers("model/ids"), golden.integers("model/targets")).unwrap();
        let want = golden.floats("model/loss")[0];
        let got: f32 = loss.clone().into_scalar();
        assert!((got - want).abs() < 2e-6 * want.abs(), "loss {got}, PyTorch {want}");
        let gradients = loss.backward();
        let check = |name: &str, got: Vec<f32>, want: Vec<f32>| {
            let scale = want.iter().fold(0f32, |most, x| most.max(x.abs()));
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() <= 1e-5 * scale, "{name}: {got}, PyTorch {want}");
            }
        };
        let vector = |name: &str, param: &Param<Tensor<1>>| {
            let got = param.val().grad(&gradients).unwrap().into_data().try_to_vec().unwrap();
            check(name, got, golden.floats(&format!("model/grad/{name}")));
        };
        let matrix = |name: &str, param: &Param<Tensor<2>>, transposed: bool| {
            let got = param.val().grad(&gradients).unwrap();
            let got = if transposed { got.transpose() } else { got };
            let want = golden.floats(&format!("model/grad/{name}"));
            check(name, got.into_data().try_to_vec().unwrap(), want);
        };
        matrix("token.weight", &gpt.token, false);
        matrix("position.weight", &gpt.position, false);
        let mut norms = vec![("norm".to_string(), &gpt.norm)];
        let mut denses = vec![("head".to_string(), &gpt.head)];
        for (i, block) in gpt.blocks.iter().enumerate() {
            let name = |part: &str| format!("blocks.{i}.{part}");
            norms.extend([(name("norm1"), &block.norm1), (name("norm2"), &block.norm2)]);
            let parts = [("qkv", &block.qkv), ("out", &block.out), ("up", &block.up), ("down", &block.down)];
            denses.extend(parts.map(|(part, dense)| (name(part), dense)));
        }
        for (name, norm) in norms {
            vector(&format!("{name}.weight"), &norm.gamma);
            vector(&format!("{name}.bias"), &norm.beta);
        }
        for (name, dense) in denses {
            matrix(&format!("{name}.weight"), &dense.weight, true);
            vector(&format!("{name}.bias"), &dense.bias);
        }
    }

    struct Golden<'a> {
        file: SafeTensors<'a>,
        device: Device,
    }

    impl Golden<'_> {
        fn floats(&self, name: &str) -> Vec<f32> {
            let view = self.file.tensor(name).unwrap();
            view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
        }

        fn vector(&self, name: &str) -> Tensor<1> {
            let data = self.floats(name);
            let len = data.len();
            Tensor::from_data(TensorData::new(data, [len]), &self.device)
        }

        fn matrix(&self, name: &str) -> Tensor<2> {
            let shape = self.file.tensor(name).unwrap().shape().to_vec();
            Tensor::from_data(TensorData::new(self.floats(name), shape), &self.device)
        }

        /// PyTorch stores a layer's weight as `[d_out, d_in]`.
        fn transposed(&self, name: &str) -> Tensor<2> {
            let data = self.matrix(name).transpose().into_data();
            Tensor::from_data(data, &self.device)
        }

        fn integers(&self, name: &str) -> Tensor<2, Int> {
            let view = self.file.tensor(name).unwrap();
            let data: Vec<i64> =
                view.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
            Tensor::from_data(TensorData::new(data, view.shape().to_vec()), &self.device)
        }
    }
}
