import { formula, frac, over, power, root } from "./formula.js";

// Lessons: what a mechanism is, its formula, an experiment to try, and what to see. The numbers and pictures come from the server,
// which computes them by the layers themselves. `mechanism` is a name of regard show; `set` are the options that the lesson begins with.
const POSITIONS = [
  {
    kind: "sinusoidal", words: "sinusoidal", source: "crates/nn/src/layers/position/sinusoidal.rs",
    formula: () => formula(["p_t,2i = sin", frac("t", power("10000", "2i / d")), ", ␣ p_t,2i+1 = cos", frac("t", power("10000", "2i / d"))]),
    about: "Each position is a point on many circles, which turn at speeds from fast to slow. It is added to the embedding. A shift by k positions is a rotation, the same at every position, so the product of two positions depends on their distance.",
    attempt: "Raise the number of features, then look at the products of positions.",
    see: "The products fall with the distance and no longer with the place; with few features they repeat, and far tokens look like near ones.",
  },
  {
    kind: "learned", words: "learned", source: "crates/nn/src/layers/position/learned.rs",
    formula: () => formula("x_t = e_t + p_t , ␣ p learned"),
    about: "A vector for each position is learned like that of a word. Nothing ties neighbours together, and positions beyond the longest training text have none.",
    attempt: "Change the seed.",
    see: "Before training the vectors are noise: every position is equally far from every other. Order comes from training alone.",
  },
  {
    kind: "relative", words: "relative", source: "crates/nn/src/layers/position/relative.rs",
    formula: () => formula(["s_ij =", frac("q_i · ( k_j + r_j−i )", root("d"))]),
    about: "A learned vector for each distance joins the key, so a head can look for what stands two places before, wherever it is. Beyond a largest distance all distances are one.",
    attempt: "Shorten the sequence.",
    see: "Cells on a diagonal share a colour: only the distance counts.",
  },
  {
    kind: "rope", words: "rotary (RoPE)", source: "crates/nn/src/layers/position/rope.rs",
    formula: () => formula("s_mn = ( R_m q_m ) · ( R_n k_n ) = q_m · R_n−m k_n"),
    about: "Queries and keys are turned by an angle that grows with their position, a different speed for each pair of features. In their product only the difference of the angles remains.",
    attempt: "Compare a short and a long sequence.",
    see: "The score of equal vectors falls with the distance in slow waves, and shifting both tokens changes nothing.",
  },
  {
    kind: "alibi", words: "ALiBi", source: "crates/nn/src/layers/position/mod.rs",
    formula: () => formula(["s_ij =", frac("q_i · k_j", root("d")), "− m_h | i − j |"]),
    about: "Nothing is added to the tokens. Each head subtracts a slope times the distance from its scores: some heads see only neighbours, others far.",
    attempt: "Raise the number of heads.",
    see: "The slopes are powers of two: from head to head the range halves or doubles.",
  },
  {
    kind: "floater", words: "FLOATER", source: "crates/nn/src/layers/position/floater.rs",
    formula: () => formula(["p_t+1 = p_t +", over("∫", "t", "t+1"), "h ( τ , p_τ ) dτ"]),
    about: "Positions are points on a path that a small network follows: a differential equation, solved step by step. It goes on beyond any training length.",
    attempt: "Change the seed.",
    see: "The path is smooth whatever the network: near positions are near each other even before training.",
  },
  {
    kind: "rnn", words: "a recurrent layer", source: "crates/nn/src/layers/position/recurrent.rs",
    formula: () => formula("h_t = tanh ( W x_t + U h_t−1 )"),
    about: "A recurrent layer reads the tokens first and leaves in each the trace of those before it. The order is in the states, not in numbers of positions.",
    attempt: "Change the length.",
    see: "States drift from their beginning and settle: how long an early token is remembered depends on U.",
  },
];

export const LESSONS = [
  {
    id: "scores", title: "Scores and weights", mechanism: "attention",
    formula: () => formula(["A = softmax (", frac("Q K^T", root("d")), ") , ␣ Y = A V"]),
    about: "Each token asks with a query; every token offers a key and a value. The product of query and key is the score, the softmax turns the scores of a query into weights that sum to 1, and the output is the mean of the values by these weights.",
    attempt: "Set the mask to causal.",
    see: "Keys after a query get the weight 0, and the weights of each row still sum to 1: what the future loses goes to the past. The first token can only look at itself.",
  },
  {
    id: "softmax", title: "Softmax and its temperature", mechanism: "softmax",
    formula: () => formula(["a_i =", frac("exp ( s_i / T )", "∑_j exp ( s_j / T )")]),
    about: "The softmax keeps the order of the scores and makes them positive with sum 1. The temperature T decides how much the largest takes: towards 0 it takes all, for a large T all get the same. ",
    attempt: "Move the temperature from 0.1 to 10.",
    see: "Towards 0.1 one score takes all the weight, towards 10 all get the same; their order never changes. Where one weight is nearly 1, the gradient is nearly 0: a head that is too sure no longer learns.",
  },
  {
    id: "scaling", title: "Why scores are divided by √d", mechanism: "scaling",
    formula: () => formula(["Var ( q · k ) = d , ␣ Var (", frac("q · k", root("d")), ") = 1"]),
    about: "The product of two random vectors of d features has the variance d. Without the division the softmax of a wide head would be almost hard from the start, and its gradients almost 0.",
    attempt: "Raise the largest d.",
    see: "Without the division the entropy falls as d grows; with it, it stays.",
  },
  {
    id: "masks", title: "Masks", mechanism: "masks",
    formula: () => formula(["a_ij ∝ exp ( s_ij + m_ij ) , ␣ m_ij ∈ { 0 , −∞ }"]),
    about: "A mask says which token may see which. A forbidden score becomes −∞ and its weight exactly 0. Causal masks make a language model; windows bound the cost; a mask along the edges of a graph makes a graph network.",
    attempt: "Make the window as wide as the sequence.",
    see: "It becomes the full mask. With nothing to the right it is the causal one.",
  },
  ...POSITIONS.map((one) => ({ ...one, id: "position-" + one.kind, title: "Positions: " + one.words, mechanism: "position", set: { kind: one.kind } })),
  {
    id: "heads", title: "Many heads", mechanism: "heads",
    formula: () => formula([over("∑", "h"), "softmax (", frac("Q_h K_h^T", root("d_h")), ") V_h W_h"]),
    about: "Heads attend side by side, each in a part of the features. Gluing their outputs together and multiplying by one matrix is the same as a sum of what each head writes: that is why one can be switched off alone.",
    attempt: "Raise the number of heads.",
    see: "Each head has fewer features, the cost stays, and the sum still equals the layer's output to rounding.",
  },
  {
    id: "linear", title: "Linear attention", mechanism: "linear",
    formula: () => formula(["y_i =", frac("φ ( q_i ) ∑_j φ ( k_j ) v_j^T", "φ ( q_i ) ∑_j φ ( k_j )")]),
    about: "With a feature map φ in place of the exponential, the sum over keys is computed once for all queries: the cost grows with the length and not with its square. A decoder carries the sum along, like a recurrent network.",
    attempt: "Raise the number of tokens.",
    see: "The weights are flatter than those of the softmax: a linear head cannot point at one token as sharply. Multiplied in the other order, the cost grows with the length and no longer with its square.",
  },
  {
    id: "window", title: "Gaussian window", mechanism: "window",
    formula: () => formula(["φ ( t , u ) =", over("∑", "k"), "α_k exp ( − β_k ( κ_k − u )^2 ) , ␣ κ_k ( t ) = κ_k ( t−1 ) + exp κ'_k"]),
    about: "A mixture of Gaussians slides along the text. It can only move forward, which suits handwriting and speech: the pen never goes back to an earlier letter.",
    attempt: "Raise the sharpness β, then the speed.",
    see: "The window becomes narrower, and fewer characters share the weight; with more speed it leaves the text earlier. Its sum need not be 1.",
  },
  {
    id: "hard", title: "Hard attention", mechanism: "hard",
    formula: () => formula("z ∼ a , ␣ y = v_z , ␣ ∇ E [ L ] ≈ ( L − b ) ∇ ln a_z + ∇ L"),
    about: "Hard attention draws one place instead of averaging all. Drawing has no gradient, so the weights learn from rewards: places that led to a small loss become likelier. A baseline b keeps the estimate calm.",
    attempt: "Raise the number of draws, then lower the temperature.",
    see: "The shares of the draws approach the weights as 1/√n; at a low temperature the relaxed choice becomes one key.",
  },
  {
    id: "spin-glass", title: "In-context learning as a spin glass", mechanism: "icl", source: "crates/theory/src/fields.rs", isGlass: true,
    formula: () => formula("E ( σ ) = − ∑_i<j J_ij σ_i σ_j − ∑_i h_i σ_i + ½ ∑_i λ_i σ_i^2", ["W → I /", "( 1 + ( D + 1 ) / N + λ D )"]),
    about: "Linear attention that learns linear regression from the examples in its prompts has a quadratic loss: the entries of its matrix are spins, and the prompts give their couplings and fields. Training looks for the ground state, which is computed here at once.",
    attempt: "Take as many prompts as the matrix has entries that matter, P = D(D + 1) (72 for D = 8), with a small λ; then more, then fewer.",
    see: "The test error peaks where prompts and spins are equally many, and a larger λ removes the peak. With many prompts the ground state becomes a multiple of the identity.",
  },
];
