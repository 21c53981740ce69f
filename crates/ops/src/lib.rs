//! Fused differentiable operations for Burn tensors.
//!
//! On the Flex CPU backend, an operation runs the kernels of `regard-kernels` with a hand-written backward pass. On any
//! other backend it runs a fallback in plain Burn operations. Invalid shapes, element types and options return an [`OpError`].
#![forbid(unsafe_code)]

mod activation;
mod adamw;
mod add_rows;
mod attention;
mod convolution;
mod cross_entropy;
mod ctc;
mod dropout;
mod embedding;
mod error;
mod fused;
mod graph_attention;
mod group_norm;
mod layer_norm;
mod linear;
mod linear_attention;
mod linear_cross_entropy;
mod recurrent;
mod rms_norm;
mod rope;
mod softmax;
mod sparse_matmul;
mod trajectory;

pub use activation::{activation, activation_fallback};
pub use adamw::{AdamW, Decay, Moments, ParameterGradients, combine, trained_sizes};
pub use add_rows::{add_rows, add_rows_fallback};
pub use attention::{
    AttentionOptions, Distance, Mask, SparseRows, attention, attention_crossed, attention_fallback, attention_packed,
    attention_weights, join_heads, split_heads,
};
pub use convolution::{ConvolutionOptions, convolution, convolution_fallback};
pub use cross_entropy::{cross_entropy, cross_entropy_fallback};
pub use ctc::{CtcTargets, ctc_loss, ctc_loss_fallback};
pub use dropout::{dropout, dropout_fallback};
pub use embedding::{embedding, embedding_fallback};
pub use error::OpError;
pub use graph_attention::{
    Graph, GraphAttentionOptions, SelfLoops, edge_attention, edge_attention_fallback, edge_attention_weights,
    edge_scores, edge_scores_fallback, graph_attention, graph_attention_fallback, graph_attention_weights,
};
pub use group_norm::{GroupNormOptions, group_norm, group_norm_fallback};
pub use layer_norm::{layer_norm, layer_norm_fallback};
pub use linear::{linear, linear_fallback, linear_onto};
pub use linear_attention::{
    feature_map, linear_attention, linear_attention_fallback, linear_attention_packed, repeat_heads,
};
pub use linear_cross_entropy::{linear_cross_entropy, linear_cross_entropy_fallback};
pub use recurrent::{
    GruWeights, LstmOutput, LstmState, LstmWeights, RnnWeights, WindowLstmOutput, WindowLstmWeights, gru, gru_fallback,
    lstm, lstm_fallback, lstm_with_lengths, rnn, rnn_fallback, window_lstm, window_lstm_fallback,
};
pub use regard_kernels::Precision;
pub use regard_kernels::activation::Activation;
pub use regard_kernels::adamw::AdamWOptions;
pub use regard_kernels::attention::Dropout;
pub use regard_kernels::cross_entropy::CrossEntropyOptions;
pub use regard_kernels::group_norm::Rectifier;
pub use regard_kernels::linear_attention::{Direction, FeatureMap, LinearAttentionOptions, Normalization};
pub use regard_kernels::recurrent::gru::GruReset;
pub use regard_kernels::rope::Pairing;
pub use rms_norm::{rms_norm, rms_norm_fallback};
pub use rope::{rope, rope_angles, rope_fallback, rope_packed, rope_packed_fallback};
pub use softmax::{log_softmax, log_softmax_fallback, softmax, softmax_fallback};
pub use sparse_matmul::{SparseMatrix, sparse_matmul, sparse_matmul_fallback};
pub use trajectory::{TrajectoryOptions, TrajectoryWeights, trajectory, trajectory_fallback};
