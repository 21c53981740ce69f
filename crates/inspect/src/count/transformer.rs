//! Cost of the three kinds of Transformer: encoder, decoder and encoder-decoder.

use regard_nn::layers::attention::multi_head::{MultiHeadConfig, QueryKeyNorm, Weighing};
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::feed_forward::Gate;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::norm::NormKind;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::relative::RelativeConfig;
use regard_nn::layers::position::rope::Frequencies;
use regard_nn::models::transformer::{EmbeddingNorm, OutputWeights, TransformerConfig};
use regard_ops::Mask;

use super::description::{Input, Sizes};
use super::extra::norm_draft;
use super::part::Draft;
use super::quantity::{Quantity, q};

/// Returns the number of pairs of a query and a key that it sees in self-attention, or `None` if it does not fit in a `u128`.
pub fn seen_pairs(mask: Mask, seq: usize) -> Option<u128> {
    pairs(mask, seq).get()
}

fn pairs(mask: Mask, seq: usize) -> Quantity {
    let farthest = seq.saturating_sub(1);
    let (left, right) = match mask {
        Mask::Full => (farthest, farthest),
        Mask::Causal => (farthest, 0),
        Mask::Window { left, right } => (left.min(farthest), right.min(farthest)),
    };
    // Token i sees min(i, left) tokens to its left: a number that rises to `left` and stays there. The same on the right.
    let beside = |reach: usize| q(reach).triangle() + q(reach) * (farthest - reach);
    q(seq) + beside(left) + beside(right)
}

/// Batch and sequence length of the source or of the target.
#[derive(Clone, Copy)]
struct Side {
    batch: usize,
    seq: usize,
}

impl Side {
    fn tokens(self) -> Quantity {
        q(self.batch) * self.seq
    }
}

/// A configuration with the kind and the sizes of its input.
#[derive(Clone, Copy)]
pub(super) struct Form<'a> {
    pub config: &'a TransformerConfig,
    pub input: Input,
    pub sizes: &'a Sizes,
}

impl Form<'_> {
    pub(super) fn encoder(&self) -> Draft {
        let states = self.source().tokens() * self.config.d_model;
        self.encoder_alone().keeps(states)
    }

    /// Returns an encoder whose states nothing keeps.
    pub(super) fn encoder_alone(&self) -> Draft {
        Draft::new("model").with_all(self.bottom()).with_all(self.stack())
    }

    pub(super) fn decoder(&self) -> Draft {
        let (config, side) = (self.config, self.source());
        let mask = config.sight.causal_mask().unwrap_or(Mask::Causal); // refused by `validate` otherwise
        let layer = self.layer(side, mask).caches(self.cache(side));
        Draft::new("model")
            .with_all(self.bottom())
            .with(layer.times(config.n_layers))
            .with_all(self.last_norm(side))
            .with(self.output(config.vocab, side))
    }

    pub(super) fn encoder_decoder(&self) -> Draft {
        let (config, source, target) = (self.config, self.source(), self.target());
        // All linear layers of the decoder's cross-attention keep the same encoder output.
        let encoder = Draft::new("encoder").keeps(source.tokens() * config.d_model);
        let layers = config.n_decoder_layers.unwrap_or(config.n_layers);
        let vocab = config.target_vocab.unwrap_or(config.vocab);
        let (root, decoder) = (Draft::new("model"), Draft::new("decoder"));
        let (root, encoder, decoder) = match (self.input, config.target_vocab) {
            // One embedding serves both sides. Ids are kept, and positions computed, once for each.
            (Input::Tokens, None) => {
                let again = self.positions(target);
                // Relative positions in buckets have one table for each side.
                let again = again.map(|draft| if has_buckets(config) { draft } else { draft.without_parameters() });
                (root.with_all(self.bottom()), encoder, decoder.keeps_bytes(ids(target)).with_all(again))
            }
            (Input::Tokens, Some(_)) | (Input::Features, _) => {
                (root, encoder.with_all(self.bottom()), decoder.with_all(self.embedding(vocab, target)))
            }
        };
        let decoder = decoder
            .with(self.decoder_layer(source, target).times(layers))
            .with_all(self.last_norm(target))
            .with(self.output(vocab, target));
        root.with(encoder.with_all(self.stack())).with(decoder)
    }

    /// Returns the number of logits.
    pub(super) fn logits(&self, target: bool) -> Quantity {
        let side = if target { self.target() } else { self.source() };
        let vocab = self.config.target_vocab.filter(|_| target).unwrap_or(self.config.vocab);
        side.tokens() * vocab
    }

    fn source(&self) -> Side {
        Side { batch: self.sizes.batch, seq: self.sizes.seq }
    }

    fn target(&self) -> Side {
        Side { batch: self.sizes.batch, seq: self.sizes.target_seq() }
    }

    fn attention(&self) -> MultiHeadConfig {
        self.config.block().attention()
    }

    /// Returns the number of features of all query heads, and of all key heads.
    fn widths(&self) -> (Quantity, Quantity) {
        let attention = self.attention();
        let d_head = attention.d_head();
        (q(attention.n_heads) * d_head, q(attention.kv_heads()) * d_head)
    }

    /// Returns the parts below the layers of an encoder or of a decoder-only model.
    fn bottom(&self) -> Vec<Draft> {
        match self.input {
            Input::Tokens => self.embedding(self.config.vocab, self.source()),
            Input::Features => self.positions(self.source()).into_iter().collect(),
        }
    }

    fn embedding(&self, vocab: usize, side: Side) -> Vec<Draft> {
        let d_model = self.config.d_model;
        let tokens = Draft::new("embedding").parameters(q(vocab) * d_model).keeps_bytes(ids(side));
        let types = Draft::new("token_types").parameters(q(self.config.token_types) * d_model);
        let norm = || norm_draft(Draft::new("embedding_norm"), self.config.norm, d_model, side.tokens());
        let mut parts: Vec<Draft> = std::iter::once(tokens).chain(self.positions(side)).collect();
        parts.extend((self.config.token_types > 0).then_some(types));
        parts.extend((self.config.embedding_norm == EmbeddingNorm::Norm).then(norm));
        parts
    }

    fn positions(&self, side: Side) -> Option<Draft> {
        let sizes = self.config.position_sizes();
        let draft = Draft::new("positions");
        match self.config.position {
            Position::None | Position::Sinusoidal | Position::Alibi => None,
            Position::Learned(table) => Some(draft.parameters(q(table.max_length) * sizes.d_model)),
            Position::Relative(table) => Some(draft.parameters(biases(table) * sizes.n_heads)),
            Position::Rope(rope) => {
                let pairs = sizes.d_head / 2;
                let learned = match rope.frequencies {
                    Frequencies::Fixed => 0,
                    Frequencies::Learned => pairs,
                };
                Some(draft.parameters(q(learned)).keeps(q(side.seq) * pairs))
            }
            // Each step evaluates a two-layer network four times; input and hidden units of each evaluation are kept.
            Position::Floater(path) => {
                let (d_model, d_hidden) = (q(sizes.d_model), q(path.d_hidden));
                let weights = (d_model + 1) * d_hidden + d_hidden * d_model;
                let evaluations = q(side.seq.saturating_sub(1)) * path.steps * 4;
                let draft = draft.parameters(weights + d_hidden + d_model * 2).flops(evaluations * weights * 2);
                Some(draft.keeps(evaluations * (d_model + 1 + d_hidden)))
            }
            // A GRU with zero input keeps its states, four numbers per unit, and the zeros with their weights.
            Position::Rnn(_) => {
                let (d_model, steps) = (q(sizes.d_model), q(side.seq.saturating_sub(1)));
                let draft = draft.parameters(d_model * d_model * 3 + d_model * 7).flops(steps * d_model * d_model * 6);
                Some(draft.keeps(steps * d_model * 5 + steps + d_model * 3))
            }
        }
    }

    /// Returns the encoder's layers and its final norm.
    fn stack(&self) -> Vec<Draft> {
        let layer = self.layer(self.source(), self.config.sight.mask());
        let layers = layer.times(self.config.n_layers);
        std::iter::once(layers).chain(self.last_norm(self.source())).collect()
    }

    fn last_norm(&self, side: Side) -> Option<Draft> {
        let norm = || norm_draft(Draft::new("norm"), self.config.norm, self.config.d_model, side.tokens());
        (self.config.norm_place == NormPlace::Pre).then(norm)
    }

    fn layer(&self, side: Side, mask: Mask) -> Draft {
        let parts = [self.self_attention(side, mask), self.feed_forward(side), self.norms(2, side)];
        Draft::new("layers").with_all(parts)
    }

    fn decoder_layer(&self, source: Side, target: Side) -> Draft {
        let attention = self.self_attention(target, Mask::Causal).caches(self.cache(target));
        let cross = self.cross_attention(source, target);
        Draft::new("layers").with_all([attention, cross, self.feed_forward(target), self.norms(3, target)])
    }

    /// Norms of a layer, pre-norm or post-norm. Each keeps its input; the next linear layer keeps its output.
    fn norms(&self, count: usize, side: Side) -> Draft {
        let norm = norm_draft(Draft::new("norm"), self.config.norm, self.config.d_model, side.tokens());
        Draft::new("norms").with(norm.times(count))
    }

    fn self_attention(&self, side: Side, mask: Mask) -> Draft {
        let ((all_q, all_k), d_model, tokens) = (self.widths(), q(self.config.d_model), side.tokens());
        let packed = all_q + all_k * 2;
        // Positions inside attention: learned RoPE angles need q, k and v before rotation; ALiBi its distances.
        let positions = match self.config.position {
            Position::None
            | Position::Sinusoidal
            | Position::Learned(_)
            | Position::Relative(_)
            | Position::Floater(_)
            | Position::Rnn(_) => Quantity::ZERO,
            Position::Rope(rope) => match rope.frequencies {
                Frequencies::Fixed => Quantity::ZERO,
                Frequencies::Learned => tokens * packed,
            },
            Position::Alibi => q(self.config.n_heads) * (q(side.seq) + (side.seq - 1)),
        };
        let products = match self.config.attention {
            Weighing::Softmax => self.products(side, side.seq, pairs(mask, side.seq)),
            Weighing::Linear => self.linear_products(side),
        };
        let products = products.keeps(tokens * packed + positions);
        Draft::new("attention")
            .with_all([
                Draft::new("qkv").linear(tokens, d_model, packed, self.qkv_bias()).keeps(tokens * d_model),
                products,
                Draft::new("output").linear(tokens, all_q, d_model, self.bias()),
            ])
            .with_all(self.query_key_norms(tokens))
    }

    /// The norms of queries and keys, of which each keeps its input.
    fn query_key_norms(&self, tokens: Quantity) -> Vec<Draft> {
        let attention = self.attention();
        let norm =
            |name: &str, heads: usize| norm_draft(Draft::new(name), NormKind::Rms, attention.d_head(), tokens * heads);
        match attention.query_key_norm {
            QueryKeyNorm::None => Vec::new(),
            QueryKeyNorm::Rms => {
                vec![norm("query_norm", attention.n_heads), norm("key_norm", attention.kv_heads())]
            }
        }
    }

    fn cross_attention(&self, source: Side, target: Side) -> Draft {
        let ((all_q, all_k), d_model) = (self.widths(), q(self.config.d_model));
        let (tokens, keys) = (target.tokens(), source.tokens());
        let both = all_k * 2;
        Draft::new("cross_attention").with_all([
            Draft::new("query").linear(tokens, d_model, all_q, self.qkv_bias()).keeps(tokens * d_model),
            Draft::new("key_value").linear(keys, d_model, both, self.qkv_bias()).caches(keys * both),
            self.products(target, source.seq, q(target.seq) * source.seq).keeps(tokens * all_q + keys * both),
            Draft::new("output").linear(tokens, all_q, d_model, self.bias()),
        ])
    }

    /// The products of scores and output, over `pairs` per head. They keep the output and the log-sum-exp, or the weights.
    fn products(&self, side: Side, keys: usize, pairs: Quantity) -> Draft {
        let (all_q, _) = self.widths();
        let heads = q(side.batch) * self.config.n_heads;
        let out = side.tokens() * all_q;
        Draft::new("products")
            .flops(pairs * side.batch * all_q * 4)
            .keeps_either(out + heads * side.seq, out + heads * side.seq * keys)
    }

    /// The products of linear attention: keys with values into the state, and queries with the state. They keep the output and
    /// the denominators.
    fn linear_products(&self, side: Side) -> Draft {
        let ((all_q, all_k), tokens) = (self.widths(), side.tokens());
        Draft::new("products")
            .flops(tokens * (all_q + all_k) * self.attention().d_head() * 2)
            .keeps(tokens * all_q + tokens * self.config.n_heads)
    }

    fn feed_forward(&self, side: Side) -> Draft {
        let (d_model, d_ff, tokens) = (q(self.config.d_model), q(self.config.d_ff), side.tokens());
        let bias = self.bias();
        let up = |name| Draft::new(name).linear(tokens, d_model, d_ff, bias);
        let gate = match self.config.gate {
            Gate::None => None,
            // Keeps the values before and after the activation.
            Gate::Product => Some(up("gate").keeps(tokens * d_ff * 2)),
        };
        Draft::new("feed_forward")
            .with_all(gate)
            .with(up("up").keeps(tokens * d_model + tokens * d_ff))
            .with(Draft::new("down").linear(tokens, d_ff, d_model, bias).keeps(tokens * d_ff))
    }

    fn output(&self, vocab: usize, side: Side) -> Draft {
        let (d_model, tokens) = (q(self.config.d_model), side.tokens());
        let bias = self.config.output_bias == Bias::Learned;
        let constants = if bias { vocab } else { 0 };
        let draft = match self.config.output_weights {
            OutputWeights::Own => Draft::new("output").linear(tokens, d_model, q(vocab), bias),
            OutputWeights::Embedding => {
                Draft::new("output").parameters(q(constants)).flops(tokens * d_model * vocab * 2)
            }
        };
        draft.keeps(tokens * d_model).keeps_bytes(ids(side))
    }

    /// Returns the size of what a layer keeps for decoding: keys and values, or the running state of linear attention.
    fn cache(&self, side: Side) -> Quantity {
        let (_, all_k) = self.widths();
        match self.config.attention {
            Weighing::Softmax => side.tokens() * all_k * 2,
            Weighing::Linear => q(side.batch) * all_k * (q(self.attention().d_head()) + 2),
        }
    }

    fn bias(&self) -> bool {
        self.config.bias == Bias::Learned
    }

    fn qkv_bias(&self) -> bool {
        self.attention().bias == Bias::Learned
    }
}

/// Returns the number of biases of a head by distance.
fn biases(table: RelativeConfig) -> Quantity {
    table.buckets.map_or_else(|| q(table.max_distance) * 2 + 1, q)
}

fn has_buckets(config: &TransformerConfig) -> bool {
    matches!(config.position, Position::Relative(RelativeConfig { buckets: Some(_), .. }))
}

/// Returns the bytes of 8-byte token ids, kept by an embedding or as the targets of a loss.
fn ids(side: Side) -> Quantity {
    side.tokens() * size_of::<i64>()
}
