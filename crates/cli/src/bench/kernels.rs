//! Benchmarks of attention, recurrent layers, embeddings, convolutions and group norm, called as in a training step.

use anyhow::Result;
use regard_kernels::attention::{
    AttentionGradients, AttentionOptions, AttentionShape, Band, BooleanMask, Dropout, View, ViewMut,
    attention_backward, attention_forward,
};
use regard_kernels::convolution::{ConvolutionGradients, ConvolutionShape, convolution_backward, convolution_forward};
use regard_kernels::embedding::{embedding_backward, embedding_forward};
use regard_kernels::group_norm::{
    GroupNormGradients, GroupNormOutput, GroupNormSaved, GroupNormShape, Rectifier, group_norm_backward,
    group_norm_forward,
};
use regard_kernels::linear_attention::{
    Direction, FeatureMap, LinearAttentionGradients, LinearAttentionOptions, Normalization, linear_attention_backward,
    linear_attention_forward,
};
use regard_kernels::recurrent::RecurrentShape;
use regard_kernels::recurrent::gru::{GruGradients, GruReset, GruWeights, gru_backward, gru_forward, gru_saved_len};
use regard_kernels::recurrent::lstm::{LstmGradients, LstmWeights, lstm_backward, lstm_forward};
use regard_kernels::unwritten;

use super::work::{AttentionKind, Phase};

/// Returns `len` pseudo-random values in [−1, 1).
pub fn values(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// Returns a call of attention for sizes `[batch, heads, seq, d_head]`.
pub fn attention(kind: AttentionKind, sizes: [usize; 4], phase: Phase) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let [batch, heads, seq, d_head] = sizes;
    let shape =
        AttentionShape { batch, n_heads: heads, kv_heads: heads, queries: seq, keys: seq, d_head, d_value: d_head };
    let len = sizes.iter().product();
    let (q, k, v, grad) = (values(len, 1), values(len, 2), values(len, 3), values(len, 4));
    let (mut out, mut log_sum_exp) = (vec![0.0; len], vec![0.0; batch * heads * seq]);
    let (mut grad_q, mut grad_k, mut grad_v) = (vec![0.0; len], vec![0.0; len], vec![0.0; len]);
    let bias = values(if kind == AttentionKind::Bias { heads * seq * seq } else { 0 }, 5);
    let mut grad_bias = bias.clone();
    let dense = if kind == AttentionKind::Boolean { batch * seq * seq } else { 0 };
    let mask: Vec<u8> = values(dense, 6).iter().map(|&x| u8::from(x < 0.6)).collect();
    let mut call = move |forward: bool, backward: bool| -> Result<()> {
        let options = AttentionOptions {
            scale: 1.0 / (d_head as f32).sqrt(),
            band: match kind {
                AttentionKind::Causal => Band::CAUSAL,
                AttentionKind::Window => Band { left: Some(64), right: Some(64) },
                _ => Band::FULL,
            },
            mask: (kind == AttentionKind::Boolean)
                .then_some(BooleanMask { data: &mask, strides: [seq * seq, 0, seq, 1] }),
            bias: (kind == AttentionKind::Bias).then_some(View { data: &bias, strides: [0, seq * seq, seq, 1] }),
            dropout: (kind == AttentionKind::Dropout).then_some(Dropout { probability: 0.1, seed: 1 }),
            ..AttentionOptions::default()
        };
        let view = |data| View::contiguous(data, sizes);
        if forward {
            let out = ViewMut::contiguous(&mut out, sizes);
            attention_forward(shape, &options, view(&q), view(&k), view(&v), out, &mut log_sum_exp)?;
        }
        if backward {
            let gradients = AttentionGradients {
                q: ViewMut::contiguous(&mut grad_q, sizes),
                k: ViewMut::contiguous(&mut grad_k, sizes),
                v: ViewMut::contiguous(&mut grad_v, sizes),
                bias: (kind == AttentionKind::Bias).then_some(&mut grad_bias),
                distance: None,
            };
            let (q, k, v, out) = (view(&q), view(&k), view(&v), view(&out));
            attention_backward(shape, &options, q, k, v, out, &log_sum_exp, view(&grad), gradients)?;
        }
        Ok(())
    };
    // The backward pass needs the results of one forward pass.
    call(true, false)?;
    Ok(Box::new(move || call(phase != Phase::Backward, phase != Phase::Forward)))
}

/// Returns a call of linear attention, forward and backward, for sizes `[batch, heads, seq, d_head]`.
pub fn linear_attention(direction: Direction, sizes: [usize; 4]) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let [batch, heads, seq, d_head] = sizes;
    let shape =
        AttentionShape { batch, n_heads: heads, kv_heads: heads, queries: seq, keys: seq, d_head, d_value: d_head };
    let (feature_map, normalization) = (FeatureMap::EluPlusOne, Normalization::Sum);
    let options = LinearAttentionOptions { feature_map, normalization, direction };
    let len = sizes.iter().product();
    let (q, k, v, grad) = (values(len, 1), values(len, 2), values(len, 3), values(len, 4));
    let (mut out, mut normalizer) = (vec![0.0; len], vec![0.0; batch * heads * seq]);
    let mut grads = [(); 3].map(|()| vec![0.0; len]);
    Ok(Box::new(move || {
        let view = |data| View::contiguous(data, sizes);
        let (q, k, v) = (view(&q), view(&k), view(&v));
        let written = ViewMut::contiguous(&mut out, sizes);
        linear_attention_forward(shape, options, None, q, k, v, written, &mut normalizer)?;
        let [grad_q, grad_k, grad_v] = grads.each_mut().map(|grad| ViewMut::contiguous(grad, sizes));
        let gradients = LinearAttentionGradients { q: grad_q, k: grad_k, v: grad_v };
        linear_attention_backward(shape, options, None, q, k, v, view(&out), &normalizer, view(&grad), gradients)?;
        Ok(())
    }))
}

/// Returns a call of a lookup and of the gradient of its table for sizes `[vocab, width, tokens]`. As in a training step, the results
/// are in memory that is new in each call.
pub fn embedding([vocab, width, tokens]: [usize; 3]) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let (table, grad) = (values(vocab * width, 1), values(tokens * width, 2));
    let id = |x: &f32| ((x + 1.0) / 2.0 * vocab as f32) as i64 % vocab as i64;
    let ids: Vec<i64> = values(tokens, 3).iter().map(id).collect();
    Ok(Box::new(move || {
        let (mut out, mut grad_table) = (unwritten(tokens * width), unwritten(vocab * width));
        embedding_forward(&table, width, &ids, &mut out)?;
        embedding_backward(&grad, width, &ids, &mut grad_table)?;
        Ok(())
    }))
}

/// Returns a call of a GRU over a sequence, forward and backward.
pub fn gru([batch, seq, d_in, d_hidden]: [usize; 4]) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let shape = RecurrentShape { batch, seq, d_in, d_hidden };
    let scale = 1.0 / (d_hidden as f32).sqrt();
    let weights = |len, seed| values(len, seed).iter().map(|x| x * scale).collect::<Vec<_>>();
    let (w_ih, w_hh) = (weights(d_in * 3 * d_hidden, 1), weights(d_hidden * 3 * d_hidden, 2));
    let (bias_ih, bias_hh) = (weights(3 * d_hidden, 3), weights(3 * d_hidden, 4));
    let (x, grad) = (values(batch * seq * d_in, 5), values(batch * seq * d_hidden, 6));
    let initial = vec![0.0; batch * d_hidden];
    let (mut hidden, mut saved) = (vec![0.0; grad.len()], vec![0.0; gru_saved_len(shape)]);
    let lens = [x.len(), w_ih.len(), w_hh.len(), bias_ih.len(), bias_hh.len(), initial.len()];
    let mut grads = lens.map(|len| vec![0.0; len]);
    Ok(Box::new(move || {
        let (weights, reset) =
            (GruWeights { w_ih: &w_ih, w_hh: &w_hh, bias_ih: &bias_ih, bias_hh: &bias_hh }, GruReset::AfterProduct);
        gru_forward(shape, reset, &x, weights, &initial, &mut hidden, &mut saved)?;
        let [x_grad, w_ih, w_hh, bias_ih, bias_hh, h0] = &mut grads;
        let gradients = GruGradients { x: x_grad, w_ih, w_hh, bias_ih, bias_hh, h0 };
        gru_backward(shape, reset, &x, weights, &initial, &hidden, &mut saved, &grad, gradients)?;
        Ok(())
    }))
}

/// Returns a call of an LSTM over a sequence, forward and backward.
pub fn lstm([batch, seq, d_in, d_hidden]: [usize; 4]) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let shape = RecurrentShape { batch, seq, d_in, d_hidden };
    let scale = 1.0 / (d_hidden as f32).sqrt();
    let weights = |len, seed| values(len, seed).iter().map(|x| x * scale).collect::<Vec<_>>();
    let (w_ih, w_hh) = (weights(d_in * 4 * d_hidden, 1), weights(d_hidden * 4 * d_hidden, 2));
    let (bias, x) = (weights(4 * d_hidden, 3), values(batch * seq * d_in, 4));
    let grad = values(batch * seq * d_hidden, 5);
    let initial = vec![0.0; batch * d_hidden];
    let (mut hidden, mut cells) = (vec![0.0; grad.len()], vec![0.0; grad.len()]);
    let mut gates = vec![0.0; 4 * grad.len()];
    let mut grads = [x.len(), w_ih.len(), w_hh.len(), bias.len(), initial.len(), initial.len()].map(|n| vec![0.0; n]);
    Ok(Box::new(move || {
        let weights = LstmWeights { w_ih: &w_ih, w_hh: &w_hh, bias: &bias };
        lstm_forward(shape, &x, weights, &initial, &initial, &mut hidden, &mut cells, &mut gates)?;
        let [x_grad, w_ih, w_hh, bias, h0, c0] = &mut grads;
        let gradients = LstmGradients { x: x_grad, w_ih, w_hh, bias, h0, c0 };
        lstm_backward(shape, &x, weights, &initial, &initial, &hidden, &cells, &mut gates, &grad, None, gradients)?;
        Ok(())
    }))
}

/// Returns a call of a convolution with bias for sizes `[batch, in_channels, out_channels, side, kernel, stride]`.
pub fn convolution(sizes: [usize; 6], phase: Phase) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let [batch, in_channels, out_channels, side, kernel, stride] = sizes;
    let shape = ConvolutionShape {
        batch,
        in_channels,
        out_channels,
        input: [side; 2],
        kernel: [kernel; 2],
        stride: [stride; 2],
        padding: [kernel / 2; 2],
    };
    let (input, bias) = (values(batch * in_channels * side * side, 1), values(out_channels, 2));
    let weight = values(out_channels * in_channels * kernel * kernel, 3);
    let grad = values(shape.output_len()?, 4);
    let mut out = vec![0.0; grad.len()];
    let mut grads = [input.len(), weight.len(), bias.len()].map(|len| vec![0.0; len]);
    Ok(Box::new(move || {
        if phase != Phase::Backward {
            convolution_forward(shape, &input, &weight, Some(&bias), &mut out)?;
        }
        if phase != Phase::Forward {
            let [grad_input, grad_weight, grad_bias] = &mut grads;
            let gradients =
                ConvolutionGradients { input: Some(grad_input), weight: Some(grad_weight), bias: Some(grad_bias) };
            convolution_backward(shape, &input, &weight, &grad, gradients)?;
        }
        Ok(())
    }))
}

/// Returns a call of group norm with ReLU for sizes `[batch, channels, side, groups]`.
pub fn group_norm([batch, channels, side, groups]: [usize; 4], phase: Phase) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let shape = GroupNormShape { batch, channels, groups, positions: side * side };
    let (x, grad) = (values(batch * channels * side * side, 1), values(batch * channels * side * side, 2));
    let (gamma, beta) = (values(channels, 3), values(channels, 4));
    let (mut out, mut mean, mut inverse) = (vec![0.0; x.len()], vec![0.0; batch * groups], vec![0.0; batch * groups]);
    let mut grads = [x.len(), channels, channels].map(|len| vec![0.0; len]);
    let mut call = move |forward: bool, backward: bool| -> Result<()> {
        if forward {
            let output = GroupNormOutput { out: &mut out, mean: &mut mean, inverse_deviation: &mut inverse };
            group_norm_forward(shape, &x, &gamma, &beta, None, 1e-5, Rectifier::Relu, output)?;
        }
        if backward {
            let saved = GroupNormSaved {
                x: &x,
                gamma: &gamma,
                mean: &mean,
                inverse_deviation: &inverse,
                rectified: Some(&out),
            };
            let [x, gamma, beta] = &mut grads;
            group_norm_backward(shape, saved, &grad, GroupNormGradients { x, gamma, beta, onto: None })?;
        }
        Ok(())
    };
    // The backward pass needs the results of one forward pass.
    call(true, false)?;
    Ok(Box::new(move || call(phase != Phase::Backward, phase != Phase::Forward)))
}
